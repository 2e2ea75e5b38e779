//! Runs to test with.

use crate::record::*;

/// A raw reader's run of ten seconds at this rate, with this mean round trip.
pub(crate) fn raw(files: FileSize, concurrency: usize, mb_s: u32, rtt_ms: f64) -> Run {
    let setting = Raw { direction: Direction::Read, files, request_bytes: 1 << 20, concurrency };
    run(Setting::Raw(setting), mb_s, rtt_ms)
}

/// A run of ten seconds at this rate of reading, with this mean round trip.
pub(crate) fn run(setting: Setting, mb_s: u32, rtt_ms: f64) -> Run {
    let idle =
        Idle { request_bytes: 65_536, reads: 20, p50_ms: 12.5, least_ms: 11.0, most_ms: 15.0 };
    Run {
        format: FORMAT,
        version: "0.1.0".to_owned(),
        began: "2026-11-30T10:00:00Z".to_owned(),
        host: Host { name: "lab1".to_owned(), kernel: "6.1.0".to_owned(), cpus: 32 },
        session: "a".to_owned(),
        order: 0,
        repeat: 0,
        seed: 1,
        care: Care { ceiling_ms: 100.0, cap_seconds: 170.0, cached: 0.05 },
        target: Target {
            directory: "/data/gdelt".into(),
            class: "nfs-hdd".to_owned(),
            why: "mountinfo says nfs4".to_owned(),
            fs_type: "nfs4".to_owned(),
            source: "server:/export".to_owned(),
            mount_point: "/data".into(),
            mount_options: "rw,rsize=1048576".to_owned(),
        },
        setting,
        outcome: Outcome::Complete,
        inputs: Files { files: 2, bytes: 1_260_000_000, cached: Some(0.01), ..Files::default() },
        outputs: Files::default(),
        measured: Some(Measured {
            seconds: 10.0,
            read_bytes: u64::from(mb_s) * 10_000_000,
            latency: Some(Latency {
                source: Source::Mountstats,
                mean_ms: rtt_ms,
                worst_ms: rtt_ms + 5.0,
                p50_ms: None,
                p95_ms: None,
            }),
            series: vec![
                Second { at: 1.0, in_flight: Some(2.0), rtt_ms: Some(rtt_ms), ..Second::default() },
                Second { at: 2.0, in_flight: Some(3.0), rtt_ms: Some(rtt_ms), ..Second::default() },
            ],
            ..Measured::default()
        }),
        idle_before: Some(idle),
        idle_after: Some(idle),
    }
}

/// The run, killed after so many seconds with the same rate.
pub(crate) fn killed(mut run: Run, seconds: u32) -> Run {
    run.outcome = Outcome::Killed { rtt_ms: 120.0 };
    if let Some(measured) = &mut run.measured {
        measured.read_bytes = measured.read_bytes / 10 * u64::from(seconds);
        measured.seconds = seconds.into();
    }
    run
}

/// The run as one that was refused or that failed: nothing was measured.
pub(crate) fn not_measured(mut run: Run, outcome: Outcome) -> Run {
    run.outcome = outcome;
    run.measured = None;
    run
}

/// A run of a stage with this setting, which reads and writes at these rates.
pub(crate) fn stage(key: &str, value: &str, mb_s: u32, written_mb_s: u32) -> Run {
    let mut run = run(
        Setting::Stage(Stage {
            stage: "convert".to_owned(),
            dataset: "gkg".to_owned(),
            first_day: "2020-01-01".to_owned(),
            last_day: "2020-01-02".to_owned(),
            varied: [(key.to_owned(), value.to_owned())].into(),
            command: vec![
                "gdelt-convert".to_owned(),
                "--root".to_owned(),
                "/data/gdelt".to_owned(),
            ],
            environment: [("LANG".to_owned(), "C".to_owned())].into(),
        }),
        mb_s,
        20.0,
    );
    if let Some(measured) = &mut run.measured {
        measured.written_bytes = u64::from(written_mb_s) * 10_000_000;
        measured.startup_seconds = Some(0.5);
        measured.tail_seconds = Some(1.5);
        measured.peak_rss_bytes = Some(400_000_000);
    }
    run
}

/// A check with this limit, in which this many requests were in flight at the most.
pub(crate) fn check(limit: Option<usize>, most: usize) -> Run {
    let mut run =
        run(Setting::Check(Check { threads: 16, limit, request_bytes: 1 << 20 }), 80, 30.0);
    if let Some(measured) = &mut run.measured {
        measured.in_flight =
            Some(InFlight { source: Source::OwnTiming, mean: Some(3.5), most: Some(most) });
        measured.kernel_in_flight =
            Some(InFlight { source: Source::Mountstats, mean: Some(3.2), most: None });
        measured.kernel_series =
            vec![Second { at: 1.0, in_flight: Some(3.2), ..Second::default() }];
    }
    run
}
