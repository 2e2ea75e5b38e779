//! Times the writing of a table as CSV: `write_csv TABLE.arrow OUT.csv THREADS TIMES` reads the
//! table into memory and writes its rows so many times over into one file.

use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use arrow_ipc::reader::FileReader;
use io_budget::Budget;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, out, threads, times] = arguments.as_slice() else {
        anyhow::bail!("usage: write_csv TABLE.arrow OUT.csv THREADS TIMES");
    };
    let budget = Budget::private();
    let bytes = budget.read_file(Path::new(table))?;
    let reader = FileReader::try_new(Cursor::new(bytes), None)?;
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>()?;
    let times: usize = times.parse().context("TIMES is a number")?;
    let threads = threads.parse().context("THREADS is a number of at least 1")?;
    let start = Instant::now();
    let published =
        sample::export::csv::write(&budget, threads, Path::new(out), &schema, &[], |deliver| {
            (0..times).flat_map(|_| batches.iter().cloned()).try_for_each(deliver)
        })?;
    let seconds = start.elapsed().as_secs_f64();
    #[expect(clippy::print_stdout, reason = "it is what this program is for")]
    {
        println!("{seconds:.2} s, {} bytes", published.size);
    }
    Ok(())
}
