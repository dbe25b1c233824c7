//! The table at the end, in Markdown.

use std::fmt;
use std::time::Duration;

use nearside::cli::kafka::Fault;

use super::Role;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub(super) role: Role,
    pub(super) fault: Fault,
    pub(super) nearside: Duration,
    pub(super) librdkafka: Duration,
}

/// The worst of every case.
#[derive(Debug, Default)]
pub struct Table {
    cases: Vec<Case>,
}

impl Table {
    pub fn add(&mut self, case: Case) {
        let same = |known: &&mut Case| (known.role, known.fault) == (case.role, case.fault);
        match self.cases.iter_mut().find(same) {
            Some(known) => {
                known.nearside = known.nearside.max(case.nearside);
                known.librdkafka = known.librdkafka.max(case.librdkafka);
            }
            None => self.cases.push(case),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| the lost broker is | what happens | nearside (s) | librdkafka (s) |\n|---|---|---|---|"
        )?;
        for case in &self.cases {
            writeln!(f, "{case}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Follower => "the follower being read",
            Role::Leader => "the leader",
        };
        let fault = match self.fault {
            Fault::Refuse => "connections are refused",
            Fault::Vanish => "packets vanish",
            Fault::None | Fault::Late(_) => "nothing",
        };
        write!(
            f,
            "| {role} | {fault} | {:.2} | {:.2} |",
            self.nearside.as_secs_f64(),
            self.librdkafka.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_rounds_the_worst_counts() {
        let case = |nearside, librdkafka| Case {
            role: Role::Leader,
            fault: Fault::Refuse,
            nearside: Duration::from_secs(nearside),
            librdkafka: Duration::from_secs(librdkafka),
        };
        let mut table = Table::default();
        table.add(case(1, 9));
        table.add(case(2, 8));
        let row = "| the leader | connections are refused | 2.00 | 9.00 |\n";
        assert!(table.to_string().ends_with(row));
    }
}
