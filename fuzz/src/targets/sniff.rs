//! The first bytes of a connection: TLS and HTTP are recognised however they arrive, and nothing
//! else is taken for them (wire.md 12.2).

use std::time::Duration;

use bytes::BufMut as _;
use nearside::ids::{Draw, Moment};
use nearside::wire::api::metadata;
use nearside::wire::{
    Caps, Class, Connection, Deframer, Event, FrameError, Input, Output, PortMixup, Reason,
    Settings, SocketId, StateName, Target, Tier, Token,
};

/// Answers that are awaited.
const EXPECTED: usize = 4;

/// Two bytes say how long the reads are, the rest is the stream.
pub(super) fn run(data: &[u8]) {
    let Some((step, mut stream)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (step, expected) = (usize::from(u16::from_be_bytes(*step)).max(1), mixup(stream));
    let mut deframer = Deframer::new(Caps::default());
    (0..EXPECTED).for_each(|_| deframer.expect(Tier::Setup));
    let mut fed = 0;
    while !stream.is_empty() {
        let buffer = deframer.buffer();
        assert!(
            buffer.capacity() <= 2 * fed + 64 * 1024,
            "too much reserved"
        );
        let room = buffer.capacity() - buffer.len();
        let (now, rest) = stream.split_at(step.min(room).min(stream.len()));
        buffer.put_slice(now);
        (fed, stream) = (fed + now.len(), rest);
        while let Some(cut) = deframer.next_frame().transpose() {
            match (cut, expected) {
                (Err(FrameError::Mixup(seen)), expected) => {
                    assert_eq!(Some(seen), expected);
                    return refused(seen);
                }
                (cut, Some(_)) => panic!("another protocol passed: {cut:?}"),
                (Ok(_), None) => {}
                (Err(error), None) => {
                    assert_eq!(deframer.next_frame(), Err(error), "an error stays");
                    return;
                }
            }
        }
        assert!(expected.is_none() || fed < 4, "recognised too late");
    }
}

/// What four bytes show.
fn mixup(stream: &[u8]) -> Option<PortMixup> {
    match stream.first_chunk::<4>()? {
        b"HTTP" => Some(PortMixup::Http),
        [0x15 | 0x16, 3, minor, _] if *minor < 5 => Some(PortMixup::Tls),
        _ => None,
    }
}

/// A connection that is told waits flat 30 s.
fn refused(mixup: PortMixup) {
    let target = Target {
        broker: None,
        host: "a.kafka".into(),
        port: 9092,
    };
    let now = Moment::from_ms(1_000);
    let mut connection = Connection::new(Class::Control, target, Settings::default(), 0);
    let socket = SocketId(0);
    let request = metadata::Request::default().into();
    let inputs = [
        Input::Request {
            token: Token(0),
            request,
        },
        Input::Resolved(Ok(vec![([10, 0, 0, 1], 9092).into()])),
        Input::Dialed {
            socket,
            result: Ok(()),
        },
        Input::Broken {
            socket,
            error: FrameError::Mixup(mixup),
        },
    ];
    for input in inputs {
        connection.handle(input, Draw(7), now);
    }
    let told = std::iter::from_fn(|| connection.poll_output()).any(|output| {
        let reason = Reason::Mixup(mixup);
        matches!(output, Output::Event(Event::Transition { reason: it, .. }) if it == reason)
    });
    assert!(told);
    assert_eq!(connection.state(), StateName::Backoff);
    let due = connection.next_deadline();
    assert_eq!(due, Some(now + Duration::from_secs(30)));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let streams: [&[u8]; 9] = [
        &[0x15, 3, 3, 0, 2, 2, 80],
        &[0x15, 3, 1, 0, 2, 2, 40],
        &[0x16, 3, 4, 0, 80, 1, 0, 0],
        &[0x16, 3, 5, 0, 80, 1, 0, 0],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"HTTQ",
        &[0, 0, 0, 6, 0, 0, 0, 1, 0, 35, 0, 0, 0, 4, 0, 0, 0, 2],
        &[0, 0, 0, 4, 0, 0, 0, 1, 0x15, 3, 3, 0, 2, 2, 80],
        &[0, 0, 0, 4, 0, 0, 0, 1, b'H', b'T', b'T', b'P'],
    ];
    let steps = [[0, 1], [0, 3], [0, 200]];
    let pairs = steps
        .iter()
        .flat_map(|step| streams.map(|stream| (step, stream)));
    pairs
        .map(|(step, stream)| [&step[..], stream].concat())
        .collect()
}
