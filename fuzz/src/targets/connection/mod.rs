//! A connection in virtual time, with a host and a broker that do what the input says.
//!
//! Whatever they do, every request ends once and by its deadline, what is told about its bytes is
//! true, and no more is in flight than the class allows.

mod answers;
mod host;
mod requests;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nearside::ids::Moment;
use nearside::wire::sasl::Mechanism;
use nearside::wire::{
    Class, DrainReason, FrameError, Input, PortMixup, SaslStep, Security, Settings, StateName,
    TlsFailure,
};

use self::host::Host;
use crate::script::Script;

const CLASSES: [Class; 5] = [
    Class::Control,
    Class::FetchRack,
    Class::FetchNoRack,
    Class::Produce,
    Class::Coordinator,
];

const MECHANISMS: [Option<Mechanism>; 4] = [
    None,
    Some(Mechanism::Plain),
    Some(Mechanism::ScramSha256),
    Some(Mechanism::OAuthBearer),
];

const DRAINS: [DrainReason; 4] = [
    DrainReason::CredentialsReplaced,
    DrainReason::AddressChanged,
    DrainReason::Rebootstrap,
    DrainReason::Shutdown,
];

/// The first bytes choose the connection, the rest is what happens.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let class = script.pick(&CLASSES);
    let (tls, strict) = (script.flag(), script.below(4) == 3);
    let settings = Settings {
        strict,
        security: Security {
            tls,
            sasl: script.pick(&MECHANISMS),
            plain_in_clear: true,
        },
        ..Settings::default()
    };
    let mut host = Host::new(class, script.flag(), settings);
    while !script.is_over() {
        play(&mut host, &mut script);
    }
    host.finish();
}

fn play(host: &mut Host, script: &mut Script<'_>) {
    match script.below(32) {
        0..8 => go_on(host, script),
        8..13 => {
            let kind = script.byte();
            let times = 1 + script.below(4);
            (0..times).for_each(|_| host.request(kind));
        }
        13 => (0..80).for_each(|_| host.request(0)),
        14 => host.pass(Duration::from_millis(script.byte().into())),
        15 => host.pass(Duration::from_secs(script.byte().into())),
        16 => host.tick(),
        17 => host.jump(Duration::from_secs(script.byte().into())),
        18 => host.answer(|ask| answers::odd(ask, script)),
        19 => host.answer(|_| Bytes::copy_from_slice(script.field())),
        20 => host.answer_wrongly(script.i32()),
        21 => host.unasked(script.field()),
        22 => broken(host, script),
        23 => host.wrote(script.below(4)),
        24 => host.lose(script.below(4)),
        25 => {
            let until = host.now + Duration::from_secs(script.byte().into());
            host.feed(Input::Mute { until });
        }
        26 if script.below(4) == 0 => host.drain(script.pick(&DRAINS)),
        26 | 27 => host.replace(),
        28 => host.feed(Input::Open),
        29 => host.feed(Input::Renew),
        30 => host.stale(script.below(6)),
        _ => setback(host, script),
    }
}

/// What is next if all goes well.
fn go_on(host: &mut Host, script: &mut Script<'_>) {
    match host.connection.state() {
        StateName::Resolving => {
            let list = (0..=script.below(3)).map(address).collect();
            host.feed(Input::Resolved(Ok(list)));
        }
        StateName::Connecting => host.dialed(Ok(())),
        StateName::Tls => host.shaken(Ok(script.flag())),
        StateName::Backoff => host.tick(),
        _ if host.sasl_asked() => {
            let step = match host.challenged() {
                false => SaslStep::Token(Bytes::from_static(b"token")),
                true => SaslStep::Done,
            };
            host.sasl(step);
        }
        _ => host.answer(answers::good),
    }
}

/// What may go wrong at the step that is next.
fn setback(host: &mut Host, script: &mut Script<'_>) {
    let why = || "refused".to_owned();
    match host.connection.state() {
        StateName::Resolving if script.flag() => host.feed(Input::Resolved(Ok(Vec::new()))),
        StateName::Resolving => host.feed(Input::Resolved(Err(why()))),
        StateName::Connecting => host.dialed(Err(why())),
        StateName::Tls => {
            let failure = match script.below(4) {
                0 => TlsFailure::Trust(why()),
                1 => TlsFailure::NotTls,
                2 => TlsFailure::HungUp(why()),
                _ => TlsFailure::Lost(why()),
            };
            host.shaken(Err(failure));
        }
        _ => {
            let step = match script.below(4) {
                0 => SaslStep::Failed(why()),
                1 => SaslStep::Done,
                2 => SaslStep::Refused {
                    token: Bytes::from_static(&[1]),
                    why: why(),
                },
                _ => SaslStep::Token(Bytes::from_static(&[7; 70_000])),
            };
            host.sasl(step);
        }
    }
}

fn broken(host: &mut Host, script: &mut Script<'_>) {
    let error = match script.below(5) {
        0 => FrameError::Mixup(PortMixup::Tls),
        1 => FrameError::Mixup(PortMixup::Http),
        2 => FrameError::TooShort(-1),
        3 => FrameError::TooLong { length: 9, cap: 8 },
        _ => FrameError::Unasked,
    };
    host.broken(error);
}

fn address(last: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last as u8 + 1], 9092))
}

/// When things begin.
const START: Moment = Moment::from_ms(1_000);

pub(super) fn seeds() -> Vec<Vec<u8>> {
    // Resolved, dialled, perhaps TLS, ApiVersions; perhaps SASL in three steps and ApiVersions.
    let set_up = [vec![8, 3, 0], [0; 24].to_vec()].concat();
    let happy = [set_up.clone(), vec![8, 1, 1, 8, 2, 1, 8, 3, 3], vec![0; 12]].concat();
    let scenes: [&[u8]; 14] = [
        // Answers out of order, unasked, malformed.
        &[8, 0, 2, 20, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0],
        &[21, 4, 1, 2, 3, 4, 0, 0],
        &[8, 1, 0, 19, 3, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0],
        // Losses before and after bytes were written, requests that wait meanwhile.
        &[8, 4, 3, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[8, 4, 3, 23, 1, 24, 2, 0, 0, 0, 0, 0, 0],
        // A member that joins while it has something to commit.
        &[8, 4, 0, 8, 3, 1, 0, 0, 0, 0],
        // Throttled, muted, timed out.
        &[8, 0, 1, 18, 3, 15, 30, 0, 0, 25, 20, 8, 0, 0, 15, 30],
        &[8, 1, 0, 15, 60, 15, 60],
        // Full, drained, replaced.
        &[13, 26, 0, 0, 27, 0, 0, 0, 0, 0, 0, 0],
        &[8, 0, 2, 26, 0, 3, 15, 3],
        &[26, 0, 2, 8, 0, 0],
        // Idle, opened again, renewed.
        &[15, 250, 28, 0, 0, 0, 0, 29, 0, 0, 0, 0, 0],
        // Stale inputs, sockets that break.
        &[30, 1, 30, 4, 22, 0, 15, 31, 0, 0, 0, 0],
        &[17, 200, 31, 0, 31, 1, 15, 70, 31, 0, 22, 2],
    ];
    let mut seeds = Vec::new();
    for class in 0..5 {
        for [tls, strict, sasl] in [[0, 0, 0], [1, 0, 0], [1, 3, 1], [0, 0, 2], [1, 0, 3]] {
            let head = [class, tls, strict, sasl, 1];
            seeds.push([&head[..], &happy].concat());
            let at = seeds.len();
            for scene in scenes.iter().skip(at % 2).step_by(2) {
                seeds.push([&head[..], &set_up, *scene].concat());
            }
        }
        // Nothing but setbacks.
        seeds.push(
            [
                &[class, 1, 0, 1, 0, 8, 1, 1][..],
                &[31, 0, 15, 9, 0].repeat(12),
            ]
            .concat(),
        );
    }
    seeds
}
