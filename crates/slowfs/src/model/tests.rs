use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn read(file: u64, offset: u64, bytes: u64) -> Request {
    Request { kind: Kind::Read, file, offset, bytes }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` clients read sequentially, each asking again as soon as it is answered.
fn closed_loop(config: Config, n: u64, reads: u32) -> (f64, f64) {
    let mut device = Device::new(config);
    let mut due: BinaryHeap<Reverse<(Duration, u64, u64)>> =
        (0..n).map(|c| Reverse((Duration::ZERO, c, 0))).collect();
    let (mut rtt, mut last) = (0.0, Duration::ZERO);
    for _ in 0..reads {
        let Reverse((now, client, offset)) = due.pop().unwrap();
        let a = device.admit(now, &read(client, offset, MIB));
        rtt += a.reply.as_secs_f64() - now.as_secs_f64();
        last = last.max(a.reply);
        due.push(Reverse((a.reply, client, offset + MIB)));
    }
    let mb_s = f64::from(reads) * 1.048_576 / last.as_secs_f64();
    (mb_s, rtt * 1e3 / f64::from(reads))
}

#[test]
fn one_server_serves_in_order_and_queues() {
    let mut d = Device::new(Config { seek: ms(10), latency: ms(2), ..Config::default() });
    let a = d.admit(ms(0), &read(1, 0, 1));
    let b = d.admit(ms(4), &read(2, 0, 1));
    let c = d.admit(ms(50), &read(3, 0, 1));
    assert_eq!((a.start, a.finish, a.reply, a.ahead), (ms(0), ms(10), ms(12), 0));
    assert_eq!((b.start, b.finish, b.reply, b.ahead), (ms(10), ms(20), ms(22), 1));
    assert_eq!((c.start, c.finish, c.ahead), (ms(50), ms(60), 0));
}

#[test]
fn several_servers_work_side_by_side() {
    let mut d = Device::new(Config { servers: 2, seek: ms(10), ..Config::default() });
    let finishes: Vec<_> = (0..4).map(|i| d.admit(ms(0), &read(i, 0, 1)).finish).collect();
    assert_eq!(finishes, [ms(10), ms(10), ms(20), ms(20)]);
}

#[test]
fn a_stream_seeks_once_until_too_many_interleave() {
    let config = Config { seek: ms(10), sequential: ms(1), streams: 1, ..Config::default() };
    let mut d = Device::new(config.clone());
    let cost = |d: &mut Device, r| {
        let a = d.admit(ms(1_000_000), &r);
        a.finish.abs_diff(a.start)
    };
    assert_eq!(cost(&mut d, read(1, 0, 100)), ms(10));
    assert_eq!(cost(&mut d, read(1, 100, 100)), ms(1));
    assert_eq!(cost(&mut d, read(2, 0, 100)), ms(10));
    assert_eq!(cost(&mut d, read(1, 200, 100)), ms(10));
    let mut d = Device::new(Config { streams: 2, ..config });
    for offset in [0, 100, 200] {
        let expected = if offset == 0 { ms(10) } else { ms(1) };
        assert_eq!(cost(&mut d, read(1, offset, 100)), expected);
        assert_eq!(cost(&mut d, read(2, offset, 100)), expected);
    }
}

#[test]
fn throughput_flattens_while_round_trips_grow_with_readers() {
    let table: Vec<_> = [1, 2, 4, 8].map(|n| closed_loop(Config::hdd_nfs(), n, 4_000)).into();
    let (mb_s, rtt): (Vec<f64>, Vec<f64>) = table.into_iter().unzip();
    assert!(mb_s[0] > 60.0 && mb_s[0] < 80.0, "{mb_s:?}");
    assert!(mb_s[3] / mb_s[1] < 1.05, "{mb_s:?}");
    assert!((rtt[3] / rtt[2] - 2.0).abs() < 0.1, "{rtt:?}");
    assert!((rtt[0] - 14.85).abs() < 0.1, "{rtt:?}");
}

#[test]
fn noise_keeps_the_mean_and_repeats_with_its_seed() {
    let mut a = SplitMix(7);
    let mean = (0..20_000).map(|_| a.factor(0.3)).sum::<f64>() / 20_000.0;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    let draw = |seed| {
        let config = Config { jitter: 0.5, seek: ms(10), seed, ..Config::default() };
        Device::new(config).admit(ms(0), &read(0, 0, 1)).finish
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn presets_differ_in_their_idle_cost_of_a_read() {
    let idle = |config| Device::new(config).admit(ms(0), &read(1, 0, 64 << 10)).reply.as_micros();
    assert_eq!(idle(Config::hdd_nfs()), 13_740);
    assert_eq!(idle(Config::hdd()), 8_864);
    assert_eq!(idle(Config::ssd()), 243);
    assert_eq!(idle(Config::default()), 0);
}

proptest! {
    #[test]
    fn no_parameters_and_no_request_break_the_order_of_time(
        numbers in prop::array::uniform4(any::<f64>()),
        (seek, latency, stall) in any::<(Duration, Duration, Duration)>(),
        servers in 0_usize..4,
        streams in 0_usize..4,
        (file, offset, bytes) in any::<(u64, u64, u64)>(),
    ) {
        let [bandwidth, jitter, interference, probability] = numbers;
        let mut device = Device::new(Config {
            servers,
            seek,
            latency,
            streams,
            bandwidth,
            jitter,
            interference,
            stall: (probability, stall),
            ..Config::default()
        });
        for _ in 0..3 {
            let admission = device.admit(ms(7), &read(file, offset, bytes));
            prop_assert!(ms(7) <= admission.start);
            prop_assert!(admission.start <= admission.finish);
            prop_assert!(admission.finish <= admission.reply);
        }
    }
}
