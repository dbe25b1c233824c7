//! The rules of routing.md 4.3 and 7.1 in a sentence each.

/// What a rule says, for people.
pub(super) fn sentence(rule: &str) -> Option<&'static str> {
    SENTENCES
        .iter()
        .find(|(name, _)| *name == rule)
        .map(|(_, sentence)| *sentence)
}

/// One sentence per rule: it follows "because".
const SENTENCES: &[(&str, &str)] = &[
    (
        "R1",
        "a partition starts at its leader, whose answers also recommend replicas",
    ),
    ("R2", "a new leader epoch begins at the new leader"),
    (
        "R3",
        "there is no leader to read from, or it has no address",
    ),
    (
        "R4",
        "no leader is known at this epoch; who can still be read is read on",
    ),
    ("R5", "the set of in-sync replicas grew or changed"),
    ("R6", "a replica that left the in-sync set is not read"),
    ("R7", "metadata lists the follower offline"),
    ("R8", "new metadata may have changed the leader's answer"),
    ("R9", "the leader recommends nobody else"),
    (
        "R10",
        "the leader recommends this replica and nothing speaks against it",
    ),
    (
        "R11",
        "the recommendation cannot be followed, so the leader is asked without naming our rack",
    ),
    (
        "R12",
        "without our rack in the request the leader serves; that says nothing about preference",
    ),
    ("R13", "the leader holds records and sends none"),
    (
        "R14",
        "a follower's answer never moves the route, least of all the lease",
    ),
    ("R15", "a follower cannot recommend; the leader is asked"),
    ("R16", "the follower holds records and sends none"),
    ("R17", "the leader confirms the replica being read"),
    ("R18", "the leader now recommends this replica"),
    ("R19", "the leader's new recommendation cannot be followed"),
    (
        "R20",
        "the leader recommends nobody: it wants to serve itself",
    ),
    (
        "R21",
        "a question to the leader that failed is asked again later, while reading goes on",
    ),
    (
        "R22",
        "the leader says the position is out of range, so it is resolved anew",
    ),
    ("R23", "an error of the leader is waited out at the leader"),
    ("R24", "the broker lags behind metadata or log for a moment"),
    (
        "R25",
        "a faulty replica is left alone for a while and the leader serves",
    ),
    (
        "R26",
        "out of range: the leader alone decides about positions",
    ),
    ("R27", "the broker knows a newer epoch than we do"),
    ("R28", "the connection of the serving broker is gone"),
    ("R29", "the answer of the follower is overdue"),
    (
        "R30",
        "the broker fails for many partitions at once, so all of them leave it",
    ),
    (
        "R31",
        "the broker is back, and this partition's turn has come",
    ),
    ("R33", "the lease asks for confirmation"),
    ("R34", "nobody confirmed the lease in twice its time"),
    ("R35", "a hold is over"),
    (
        "R36",
        "the leader's log goes on where the follower's stands still",
    ),
    (
        "R37",
        "the position was moved from outside; the route is not concerned",
    ),
    (
        "R38",
        "a paused or full partition fetches nothing; its clocks run on",
    ),
    ("R39", "reading may go on"),
    (
        "R40",
        "a throttled broker is waited for: leaving it would evade its quota",
    ),
    ("R41", "the partition is no longer ours"),
    ("R42", "the topic was deleted or created anew"),
    (
        "R43",
        "the leader is silent; whoever is in sync may serve meanwhile",
    ),
    (
        "R44",
        "on a refuge the leader is asked from time to time whether it is back",
    ),
    ("R45", "a refuge that fails is left for the next one"),
    (
        "R46",
        "the lane without rack goes on at another protocol version",
    ),
    ("H1", "only the current leader's recommendation counts"),
    (
        "H2",
        "records that came with a recommendation are taken first",
    ),
    (
        "H3",
        "no recommendation in a request that named our rack means: stay at the leader",
    ),
    (
        "H4",
        "a recommendation without our rack means nothing, but this lane would starve",
    ),
    (
        "H5",
        "recommendations are not followed here (`route.follow.hints`)",
    ),
    ("H6", "the leader recommends itself"),
    (
        "H7",
        "the recommended broker is unknown, has no address or is listed offline",
    ),
    (
        "H8",
        "the recommended replica is being left alone after a fault, or is too old",
    ),
    (
        "H9",
        "the recommended replica led until a second ago and may expose a tail to be cut",
    ),
    ("H10", "too many changes of replica within a minute"),
    (
        "H11",
        "the recommended replica is not in the in-sync set as known",
    ),
    (
        "H12",
        "the connection to the recommended replica is not ready yet",
    ),
    ("H13", "it is in sync, connected and not being left alone"),
    (
        "7.2",
        "fresh metadata is asked for while a recommended replica is outside the in-sync set",
    ),
    (
        "15",
        "a change waits for the fetch in flight, so that no paid byte is wasted",
    ),
    ("16", "the pause after a refusal is over"),
    (
        "4.1",
        "while one replica of our rack is left alone, another may do",
    ),
    (
        "5",
        "the answer belongs to a question that is no longer asked",
    ),
    (
        "18",
        "a leader that cannot be reached is told as a diagnostic",
    ),
    ("11", "offsets are resolved at the leader only"),
    (
        "12",
        "history is validated at the leader after a change of epoch (KIP-320)",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_of_both_tables_has_a_sentence() {
        let routes = (1..=46).filter(|number| *number != 32);
        for number in routes {
            assert!(sentence(&format!("R{number}")).is_some(), "R{number}");
        }
        for number in 1..=13 {
            assert!(sentence(&format!("H{number}")).is_some(), "H{number}");
        }
    }

    #[test]
    fn no_rule_is_listed_twice() {
        for (index, (name, _)) in SENTENCES.iter().enumerate() {
            let first = SENTENCES.iter().position(|(other, _)| other == name);
            assert_eq!(first, Some(index), "{name}");
        }
    }

    #[test]
    fn the_list_of_rules_in_the_documentation_is_whole() {
        let page = include_str!("../../../../docs/routing-rules.md");
        let rows = page.lines().filter_map(|line| {
            let name = line.strip_prefix("| ")?.split(" | ").next()?;
            name.ends_with(|last: char| last.is_ascii_digit())
                .then_some(name)
        });
        // Every other word between backquotes.
        let brackets = page.rsplit("## ").next().unwrap_or_default();
        let brackets = brackets.split('`').skip(1).step_by(2);
        let listed: BTreeSet<&str> = rows.chain(brackets).collect();
        let known: BTreeSet<&str> = SENTENCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, known);
    }
}
