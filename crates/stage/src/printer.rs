//! The one voice on stderr: messages, and a progress bar where somebody is looking.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints messages to stderr. Control characters in them are escaped: names and values from
/// archive files must not reach a terminal.
#[derive(Debug, Clone)]
pub struct Printer {
    quiet: bool,
    verbose: bool,
    bars: bool,
    /// The bar on screen, which messages go above.
    bar: ProgressBar,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();
const PLAIN: Style = Style::new();

impl Printer {
    /// A printer that shows bars when stderr is a terminal, unless they are unwanted, messages are
    /// verbose or quiet, or Make runs this process.
    pub fn new(quiet: bool, verbose: bool, no_progress: bool) -> Self {
        let under_make = std::env::var_os("MAKELEVEL").is_some();
        let looked_at = std::io::stderr().is_terminal();
        let bars = looked_at && !(quiet || verbose || no_progress || under_make);
        Self { quiet, verbose, bars, bar: ProgressBar::hidden() }
    }

    /// What a user reads at the start and end of a run.
    pub fn info(&self, message: impl Display) {
        if !self.quiet {
            self.print("", PLAIN, &message);
        }
    }

    /// What a user asks for with `-v`.
    pub fn detail(&self, message: impl Display) {
        if self.verbose {
            self.print("", PLAIN, &message);
        }
    }

    /// Something that the user should look at.
    pub fn warn(&self, message: impl Display) {
        self.print("warning: ", WARNING, &message);
    }

    /// Why something failed, with what caused it and what to do.
    pub fn error(&self, error: &(dyn std::error::Error + 'static), hint: Option<&str>) {
        self.print("error: ", ERROR, &crate::describe(error));
        if let Some(hint) = hint {
            self.print("hint: ", HINT, &hint);
        }
    }

    /// Starts a bar over `length` steps, counted as `unit`. It is drawn ten times a second at
    /// most, and only where [`Self::new`] allows it.
    pub fn start_bar(&self, length: u64, unit: &'static str) -> Bar {
        let bar = &self.bar;
        if self.bars {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        bar.reset();
        bar.set_length(length);
        let template = "{bar:32} {pos}/{len} {msg}  {per_sec}  {elapsed} left {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(unit);
        // It moves when a step is done: a ticker is a thread, which not every system grants.
        bar.tick();
        Bar { bar: bar.clone() }
    }

    fn print(&self, label: &str, style: Style, message: &dyn Display) {
        let text = escape_control(&message.to_string());
        self.bar.suspend(|| {
            let mut stderr = anstream::stderr().lock();
            // Nobody is left to tell when stderr is closed.
            let _written = writeln!(stderr, "{style}{label}{style:#}{text}");
        });
    }
}

/// A progress bar; it disappears when dropped.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Moves the bar on.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The text with control characters other than line feeds written as escapes.
fn escape_control(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(escape_control("a\u{1b}[31mb\rc\nd é"), "a\\u{1b}[31mb\\rc\nd é");
        assert_eq!(escape_control("\u{9b}2J"), "\\u{9b}2J");
    }
}
