//! The demo's picture of the moment: one line per partition.

use std::fmt::Write as _;
use std::time::Duration;

/// What is shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Picture {
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Records written so far.
    pub(super) produced: u64,
    /// Records handled so far.
    pub(super) handled: u64,
    /// One line per partition.
    pub(super) rows: Vec<Row>,
    /// One line per member.
    pub(super) members: Vec<Member>,
    /// What happened, the newest last.
    pub(super) news: Vec<String>,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Row {
    /// Its name.
    pub(super) partition: String,
    /// Rack of the member that owns it.
    pub(super) member: Option<String>,
    /// The broker it is read from.
    pub(super) replica: Option<Place>,
    /// Its leader.
    pub(super) leader: Option<Place>,
    /// Records behind the high watermark.
    pub(super) lag: u64,
    /// Records handled.
    pub(super) records: u64,
}

/// One member of the fleet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Member {
    /// Its rack.
    pub(super) rack: String,
    /// Partitions it owns.
    pub(super) partitions: usize,
    /// Record bytes it read inside its zone.
    pub(super) same_zone_bytes: u64,
    /// Record bytes it read across zones.
    pub(super) cross_zone_bytes: u64,
}

/// A broker and its rack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) broker: i32,
    pub(super) rack: String,
}

impl Picture {
    /// The picture as lines of text.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        let seconds = self.elapsed.as_secs();
        line(
            &mut text,
            format_args!(
                "nearside demo  {seconds:>3} s   written {}   handled {}",
                grouped(self.produced),
                grouped(self.handled)
            ),
        );
        line(&mut text, format_args!(""));
        line(
            &mut text,
            format_args!(
                "{:<12} {:<8} {:<14} {:<14} {:>7} {:>10}",
                "PARTITION", "MEMBER", "READ FROM", "LEADER", "LAG", "HANDLED"
            ),
        );
        for row in &self.rows {
            row.render(&mut text);
        }
        line(&mut text, format_args!(""));
        line(
            &mut text,
            format_args!(
                "{:<12} {:>10} {:>12} {:>12}",
                "MEMBER", "PARTITIONS", "SAME ZONE", "CROSS ZONE"
            ),
        );
        for member in &self.members {
            member.render(&mut text);
        }
        line(&mut text, format_args!(""));
        for news in &self.news {
            line(&mut text, format_args!("  {news}"));
        }
        text
    }
}

impl Row {
    fn render(&self, text: &mut String) {
        let member = self
            .member
            .as_ref()
            .map_or_else(|| "-".to_owned(), |rack| format!("rack {rack}"));
        line(
            text,
            format_args!(
                "{:<12} {:<8} {:<14} {:<14} {:>7} {:>10}",
                self.partition,
                member,
                place(self.replica.as_ref()),
                place(self.leader.as_ref()),
                grouped(self.lag),
                grouped(self.records),
            ),
        );
    }
}

impl Member {
    fn render(&self, text: &mut String) {
        line(
            text,
            format_args!(
                "{:<12} {:>10} {:>12} {:>12}",
                format!("rack {}", self.rack),
                self.partitions,
                bytes(self.same_zone_bytes),
                bytes(self.cross_zone_bytes),
            ),
        );
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into memory does not fail.
    text.write_fmt(arguments).ok();
    while text.ends_with(' ') {
        text.pop();
    }
    text.push('\n');
}

fn place(place: Option<&Place>) -> String {
    place.map_or_else(
        || "-".to_owned(),
        |place| format!("broker {} ({})", place.broker, place.rack),
    )
}

/// A number with a comma before each third digit.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size with a unit, to three digits.
pub(super) fn bytes(size: u64) -> String {
    let mut unit = 0_usize;
    let mut whole = size;
    let mut rest = 0;
    while whole >= 1_024 && unit + 1 < UNITS.len() {
        rest = whole % 1_024;
        whole /= 1_024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 || whole >= 100 {
        format!("{whole} {name}")
    } else {
        format!("{whole}.{} {name}", rest * 10 / 1_024)
    }
}

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_easily() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [bytes(0), bytes(1_023), bytes(1_536), bytes(200 << 20)],
            ["0 B", "1023 B", "1.5 KiB", "200 MiB"]
        );
    }

    #[test]
    fn a_picture_shows_each_partition_with_its_replica() {
        let place = |broker, rack: &str| {
            Some(Place {
                broker,
                rack: rack.into(),
            })
        };
        let picture = Picture {
            elapsed: Duration::from_secs(7),
            produced: 1_250,
            handled: 1_248,
            rows: vec![
                Row {
                    partition: "parcels-0".into(),
                    member: Some("b".into()),
                    replica: place(2, "b"),
                    leader: place(1, "a"),
                    lag: 2,
                    records: 204,
                },
                Row {
                    partition: "parcels-1".into(),
                    ..Row::default()
                },
            ],
            members: vec![Member {
                rack: "b".into(),
                partitions: 1,
                same_zone_bytes: 31_000,
                cross_zone_bytes: 0,
            }],
            news: vec!["broker 2 was killed".into()],
        };
        let expected = "\
nearside demo    7 s   written 1,250   handled 1,248

PARTITION    MEMBER   READ FROM      LEADER             LAG    HANDLED
parcels-0    rack b   broker 2 (b)   broker 1 (a)         2        204
parcels-1    -        -              -                    0          0

MEMBER       PARTITIONS    SAME ZONE   CROSS ZONE
rack b                1     30.2 KiB          0 B

  broker 2 was killed
";
        assert_eq!(picture.render(), expected);
    }
}
