//! The NFS client's counters as samples for a governor: they see every read of the host, of other
//! programs and the kernel's own too. How they are parsed is the storage module's work.

use std::time::Duration;

use crate::governor::Sample;
use crate::storage::{Delta, Reading, Storage, System};

/// Time between two readings; the counters have whole milliseconds.
const INTERVAL: Duration = Duration::from_millis(200);

/// Samples for one interval, at most: their number is only a weight.
const MOST_SAMPLES: u64 = 1_000;

/// Reads the counters of one server now and then.
#[derive(Debug)]
pub(crate) struct MountSampler {
    system: System,
    storage: Storage,
    last: Option<(Duration, Reading)>,
}

impl MountSampler {
    /// A sampler for the server of a storage.
    pub(crate) fn new(system: System, storage: Storage) -> Self {
        Self { system, storage, last: None }
    }

    /// What was answered since the last reading: as many samples as reads, all with their mean,
    /// and nothing if that was less than 200 ms ago. None where there are no such counters.
    pub(crate) fn samples(&mut self, now: Duration) -> Option<Vec<Sample>> {
        let elapsed = self.last.as_ref().map(|(at, _)| now.saturating_sub(*at));
        if elapsed.is_some_and(|elapsed| elapsed < INTERVAL) {
            return Some(Vec::new());
        }
        let reading = self.system.reading(&self.storage)?;
        let delta = match (&self.last, elapsed) {
            (Some((_, earlier)), Some(elapsed)) => reading.since(earlier, elapsed),
            _ => None,
        };
        self.last = Some((now, reading));
        Some(delta.map_or_else(Vec::new, |delta| samples_of(&delta, now)))
    }
}

fn samples_of(delta: &Delta, at: Duration) -> Vec<Sample> {
    let Some(mean) = delta.reads.mean else { return Vec::new() };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean number of requests, rounded up and never negative"
    )]
    let in_flight = (delta.reads.in_flight.ceil() as usize).max(1);
    let sample = Sample {
        at,
        rtt: mean.rtt,
        bytes: mean.bytes,
        in_flight,
        // Reads that follow one another are at most one on average.
        alone: delta.reads.in_flight <= 1.0 && delta.writes.operations == 0,
    };
    let number = delta.reads.operations.min(MOST_SAMPLES);
    (0..number).map(|_| sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str =
        "50 22 0:60 / /mnt/nas rw shared:1 - nfs4 nas:/export rw,rsize=1048576\n";

    fn mountstats(reads: u64, rtt_ms: u64) -> String {
        format!(
            "device nas:/export mounted on /mnt/nas with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.2,rsize=1048576\n\
             \tage:\t100\n\
             \tbytes:\t{bytes} 0 0 0 {bytes} 0 0 0\n\
             \tper-op statistics\n\
             \t        READ: {reads} {reads} 0 {sent} {bytes} 5 {rtt_ms} {rtt_ms} 0\n\
             \t       WRITE: 0 0 0 0 0 0 0 0 0\n",
            bytes = reads << 20,
            sent = reads * 200,
        )
    }

    #[test]
    fn reads_of_the_whole_host_become_samples() {
        let proc = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::create_dir_all(proc.path().join("self")).unwrap();
            std::fs::write(proc.path().join("self").join(name), text).unwrap();
        };
        file("mountinfo", MOUNTINFO);
        let system = System::new(proc.path().to_owned(), "/nowhere".into());
        let storage = system.storage(50, 0x6969, (0, 60));
        let mut mount = MountSampler::new(system, storage);
        let at = Duration::from_millis;
        assert_eq!(mount.samples(at(900)).map(|samples| samples.len()), None, "no counters");
        file("mountstats", &mountstats(100, 2_000));
        assert!(mount.samples(at(1_000)).unwrap().is_empty(), "one reading says nothing");
        file("mountstats", &mountstats(120, 2_800));
        assert!(mount.samples(at(1_100)).unwrap().is_empty(), "too early");
        let samples = mount.samples(at(1_400)).unwrap();
        assert_eq!(samples.len(), 20);
        // 20 reads of 40 ms each in 400 ms: two at a time.
        assert_eq!((samples[0].rtt, samples[0].in_flight), (at(40), 2));
        assert_eq!((samples[0].bytes, samples[0].alone), (1 << 20, false));
    }
}
