//! `slowfs BACKING MOUNTPOINT`: mounts BACKING behind a modelled storage queue until it is told to
//! stop. The file system itself is in the library.

#![expect(clippy::disallowed_types, reason = "emulates storage; reads no archive")]

mod cli;
mod serve;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slowfs::engine::Engine;
use slowfs::fs::SlowFs;
use slowfs::model::Device;
use slowfs::stats::{Stats, Trace};

fn main() -> Result<()> {
    let args = cli::Args::parse();
    raise_file_limit();
    let stats = Arc::new(Stats::new());
    let trace = match &args.trace {
        Some(path) => {
            let out = Box::new(BufWriter::new(create(path)?));
            Some(Arc::new(Trace::new(out, Instant::now())?))
        }
        None => None,
    };
    let csv: Box<dyn Write> = match &args.csv {
        Some(path) => Box::new(create(path)?),
        None => Box::new(io::stdout()),
    };
    let device = Device::new(args.device());
    let engine = Arc::new(Engine::new(device, Arc::clone(&stats), trace.clone())?);
    let fs = SlowFs::new(&args.backing, Arc::clone(&engine), args.faults(), args.options())
        .with_context(|| format!("showing {}", args.backing.display()))?;
    serve::serve(fs, &engine, &args, serve::Records { stats, trace, csv })
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("creating {}", path.display()))
}

/// Allows as many open files as the system does: every inode that the kernel knows is one.
fn raise_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // With fewer, a program that opens many files gets an error and says so.
    let _raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
