//! Traces: what is written can be read, and a machine fed with it decides the same again.

use super::desk::{Desk, hint};
use super::samples::inputs;
use crate::ids::{Draw, Moment, TopicPartition};
use crate::routing::trace::{
    Decision, FORMAT, FactsSeen, Header, Line, LineError, PlayError, Player, Step, Taken,
};
use crate::routing::{Brokers, Class, Input, LinkChange, Settings};

/// What a desk heard, as lines of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    pub(super) lines: Vec<Line>,
    steps: u64,
    facts: FactsSeen,
}

impl Tape {
    pub(super) fn begin(
        &mut self,
        input: &Input,
        brokers: &Brokers,
        chance: (Draw, Moment),
    ) -> Taken {
        let mut taken = Taken::begin(0, self.steps, input, chance);
        if self.steps == 0 {
            taken.after_line(Line::Route {
                route: 0,
                thread: 0,
                partition: TopicPartition::new("orders", 0),
            });
        }
        self.steps += 1;
        for (broker, facts) in self.facts.news(brokers) {
            taken.after_line(Line::Facts {
                thread: 0,
                broker,
                facts,
            });
        }
        self.facts.told(brokers);
        taken
    }
}

/// Writes the desk's tape, reads it and plays it.
pub(super) fn replay(desk: &Desk) -> Vec<Decision> {
    let mut player = Player::new(header(desk.route.settings())).unwrap();
    let text: Vec<String> = desk.tape.lines.iter().map(encoded).collect();
    text.iter()
        .filter_map(|text| player.play(Line::decode(text).unwrap()).unwrap())
        .collect()
}

fn header(settings: &Settings) -> Header {
    Header {
        format: FORMAT,
        nearside: "test".to_owned(),
        unix_ms: 0,
        at: Moment::ZERO,
        settings: settings.clone(),
    }
}

fn encoded(line: &Line) -> String {
    line.encode().unwrap()
}

/// A follower that was adopted, confirmed, failed and left.
fn eventful() -> Desk {
    let mut desk = Desk::following();
    desk.records(110);
    desk.error(56);
    desk.pass(std::time::Duration::from_secs(40));
    desk
}

#[test]
fn every_input_reads_back_as_it_was_but_for_its_records() {
    for input in inputs() {
        let mut taken = Taken::begin(7, 0, &input, (Draw(u64::MAX), Moment(3)));
        taken.end(&Desk::new().route);
        let [line] = taken.lines().try_into().unwrap();
        let text = encoded(&line);
        assert_eq!(Line::decode(&text), Ok(line.clone()), "{text}");
        let Line::Step(step) = line else {
            panic!("a step is no {line:?}");
        };
        let length = |input: &Input| {
            let (Input::Row { row, .. }
            | Input::ProbeRow { row, .. }
            | Input::HedgeRow { row, .. }) = input
            else {
                return 0;
            };
            row.records.len()
        };
        assert_eq!(length(&step.input), length(&input));
    }
}

#[test]
fn no_record_byte_reaches_the_trace() {
    let mut desk = Desk::following();
    let secret = crate::wire::api::fetch::Row {
        records: b"secret payload".to_vec().into(),
        ..hint(2)
    };
    let stamp = desk.demand().stamp;
    desk.input(Input::Row {
        stamp,
        row: secret,
        inconclusive: false,
    });
    let delivered = |line: &&Line| format!("{line:?}").contains("deliver 14 bytes");
    assert!(desk.tape.lines.iter().any(|line| delivered(&line)));
    for line in &desk.tape.lines {
        let text = encoded(line);
        assert!(!text.contains("secret"), "{text}");
        assert!(!format!("{line:?}").contains("secret"), "{line:?}");
    }
}

#[test]
fn a_replay_decides_the_same_and_says_by_which_rule() {
    let decisions = replay(&eventful());
    assert!(
        decisions.iter().all(|one| one.difference.is_none()),
        "{decisions:#?}"
    );
    let by = |rule: &str| {
        let found = decisions.iter().find(|one| one.rules.contains(&rule));
        found.unwrap_or_else(|| panic!("nothing by {rule}: {decisions:#?}"))
    };
    let adopted = by("H13");
    assert_eq!(adopted.rules, ["R10", "H13"]);
    assert_eq!(
        adopted.came,
        "leader 1 sends no records and recommends broker 2"
    );
    assert_eq!(
        adopted.decided,
        "read from follower 2 in b instead of leader 1 in a"
    );
    let failed = by("R25");
    assert!(
        failed
            .came
            .starts_with("follower 2 answers KAFKA_STORAGE_ERROR"),
        "{}",
        failed.came
    );
    assert!(
        failed
            .decided
            .starts_with("read from leader 1 in a without naming our rack"),
        "{}",
        failed.decided
    );
    assert!(
        failed.follows.iter().any(|one| one.starts_with("broker 2 is left alone for ")
            && one.ends_with("(storage)")),
        "{:?}",
        failed.follows
    );
    by("R35");
}

#[test]
fn another_draw_or_a_forged_outcome_is_a_difference() {
    let forge = |change: fn(&mut Step)| {
        let mut desk = Desk::following();
        for line in &mut desk.tape.lines {
            if let Line::Step(step) = line {
                change(step);
            }
        }
        let decisions = replay(&desk);
        decisions.into_iter().find_map(|one| one.difference)
    };
    assert_eq!(forge(|_| {}), None);
    let lease = forge(|step| step.draw = Draw(0)).expect("a lease of another length");
    assert_eq!(lease.what, "state");
    let served = forge(|step| step.after.served = None).expect("another server");
    assert_eq!(served.what, "serving broker and lane");
}

#[test]
fn facts_are_told_when_they_change_and_not_again() {
    let mut desk = Desk::following();
    let told = |desk: &Desk| {
        let facts = |line: &&Line| matches!(line, Line::Facts { .. });
        desk.tape.lines.iter().filter(facts).count()
    };
    let before = told(&desk);
    desk.records(110);
    assert_eq!(told(&desk), before);
    desk.link(super::desk::B3, Class::Rack, LinkChange::Lost);
    assert_eq!(told(&desk), before + 1);
    desk.brokers.remove(super::desk::B3);
    desk.input(Input::Tick);
    assert_eq!(told(&desk), before + 2);
    assert!(replay(&desk).iter().all(|one| one.difference.is_none()));
}

#[test]
fn what_is_no_trace_is_told_from_a_cut_one() {
    let line = encoded(&Line::Dropped(3));
    assert_eq!(Line::decode(&line[..line.len() - 1]), Err(LineError::Cut));
    for foreign in [
        "{\"level\":\"info\"}",
        "hello",
        "[]",
        "{\"step\":{\"route\":1}}",
    ] {
        let error = Line::decode(foreign).unwrap_err();
        assert!(
            matches!(error, LineError::Foreign(_)),
            "{foreign}: {error:?}"
        );
    }
    let huge = encoded(&eventful().tape.lines[5]).replace("\"bytes\":0", "\"bytes\":99999999999");
    assert!(
        matches!(Line::decode(&huge), Err(LineError::Foreign(_))),
        "{huge}"
    );
}

#[test]
fn lines_out_of_place_are_refused() {
    let desk = eventful();
    let start = || Player::new(header(desk.route.settings())).unwrap();
    let play = |lines: Vec<Line>| {
        let mut player = start();
        lines.into_iter().find_map(|line| player.play(line).err())
    };
    let lines = || desk.tape.lines.clone();
    assert_eq!(play(lines()), None);
    let is_step = |line: &Line| matches!(line, Line::Step(_));
    let unknown = lines().into_iter().filter(is_step).collect();
    assert_eq!(play(unknown), Some(PlayError::UnknownRoute(0)));
    let mut gap = lines();
    let second = gap.iter().rposition(is_step).unwrap() - 1;
    gap.remove(second);
    assert!(matches!(play(gap), Some(PlayError::OutOfOrder { .. })));
    let end = Line::End {
        steps: 1,
        dropped: 0,
    };
    let short = lines().into_iter().chain([end]).collect();
    assert!(matches!(
        play(short),
        Some(PlayError::Missing { told: 1, .. })
    ));
    let other = Header {
        format: FORMAT + 1,
        ..header(desk.route.settings())
    };
    assert_eq!(
        Player::new(other).unwrap_err(),
        PlayError::Format(FORMAT + 1)
    );
    let again = Line::Header(Box::new(header(desk.route.settings())));
    assert_eq!(play(vec![again]), Some(PlayError::SecondHeader));
}

#[test]
fn steps_behind_a_recorded_loss_are_not_replayed() {
    let mut lines = eventful().tape.lines;
    let lost = lines
        .iter()
        .rposition(|line| matches!(line, Line::Step(_)))
        .unwrap()
        - 1;
    lines[lost] = Line::Dropped(1);
    let mut player = Player::new(header(Desk::new().route.settings())).unwrap();
    let played: Vec<_> = lines
        .into_iter()
        .filter_map(|line| player.play(line).unwrap())
        .collect();
    assert_eq!((player.dropped(), player.skipped()), (1, 1));
    assert_eq!(player.steps(), u64::try_from(played.len()).unwrap() + 1);
}
