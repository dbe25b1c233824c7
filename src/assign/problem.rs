//! An assignment problem on dense integers.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::{Generation, MemberId, PartitionIndex, Rack, TopicName, TopicPartition};

/// Number of a member in a [`Problem`], in the order of instance id, then member id.
pub type MemberNumber = u32;
/// Number of a topic in a [`Problem`], in the order of names.
pub type TopicNumber = u32;
/// Number of a partition in a [`Problem`]: topics one after the other.
pub type PartitionNumber = u32;

/// A topic as the leader of the group sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// The topic.
    pub name: TopicName,
    /// For each partition from 0 on, the racks of its replicas; unknown racks are left out.
    pub replica_racks: Vec<Vec<Rack>>,
}

/// One member's part of the problem: what it subscribes to and what it owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The id the coordinator gave it.
    pub member: MemberId,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance: Option<String>,
    /// Topics it wants.
    pub topics: Vec<TopicName>,
    /// Partitions it owns, by its own account.
    pub owned: Vec<TopicPartition>,
    /// The generation in which it owned them.
    pub generation: Option<Generation>,
    /// `client.rack` (KIP-881).
    pub rack: Option<Rack>,
}

/// The whole problem. Members, topics and partitions are numbers from 0 on, so that a solver works
/// on arrays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub(super) topics: Vec<NumberedTopic>,
    pub(super) members: Vec<NumberedMember>,
    /// Per partition, the racks of its replicas, ascending and without duplicates.
    pub(super) replica_racks: Vec<Vec<u32>>,
    /// Per partition, its owner by the rules of G9.
    pub(super) owner: Vec<Option<MemberNumber>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NumberedTopic {
    pub(super) name: TopicName,
    pub(super) first: PartitionNumber,
    pub(super) count: u32,
    /// Subscribed members, ascending.
    pub(super) members: Vec<MemberNumber>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NumberedMember {
    pub(super) id: MemberId,
    pub(super) rack: Option<u32>,
}

impl NumberedTopic {
    pub(super) fn partitions(&self) -> Range<PartitionNumber> {
        self.first..self.first.saturating_add(self.count)
    }
}

impl Problem {
    /// Numbers `candidates` and `topics`. Topics nobody subscribes to and subscriptions without a
    /// topic are left out; of partitions claimed by several members the highest generation wins,
    /// and a tie leaves them unowned.
    pub fn build(mut candidates: Vec<Candidate>, topics: &[Topic]) -> Self {
        // Static members come first, by instance id: it survives a restart, the member id does not
        // (KIP-345).
        candidates.sort_by(|a, b| {
            (a.instance.is_none(), &a.instance, &a.member).cmp(&(
                b.instance.is_none(),
                &b.instance,
                &b.member,
            ))
        });
        let racks = number_racks(&candidates, topics);
        let (numbered, replica_racks) = number_topics(&candidates, topics, &racks);
        let owner = number_owners(&candidates, &numbered, replica_racks.len());
        let members = candidates
            .into_iter()
            .map(|candidate| NumberedMember {
                rack: candidate.rack.and_then(|rack| racks.get(&rack).copied()),
                id: candidate.member,
            })
            .collect();
        Self {
            topics: numbered,
            members,
            replica_racks,
            owner,
        }
    }

    /// Number of members.
    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// The members, in the order of their numbers.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &MemberId> {
        self.members.iter().map(|member| &member.id)
    }

    /// Number of partitions.
    pub fn partition_count(&self) -> usize {
        self.replica_racks.len()
    }

    /// The number of `member`.
    pub fn member_number(&self, member: &MemberId) -> Option<MemberNumber> {
        let index = self
            .members
            .iter()
            .position(|candidate| candidate.id == *member)?;
        u32::try_from(index).ok()
    }

    /// The name of partition `number`.
    pub fn partition(&self, number: PartitionNumber) -> Option<TopicPartition> {
        let index = self
            .topics
            .partition_point(|topic| topic.partitions().end <= number);
        let topic = self.topics.get(index)?;
        let partition = i32::try_from(number.checked_sub(topic.first)?).ok()?;
        Some(TopicPartition {
            topic: topic.name.clone(),
            partition: PartitionIndex(partition),
        })
    }

    /// The owner of partition `number` before the rebalance, by the rules of G9.
    pub fn owner(&self, number: PartitionNumber) -> Option<MemberNumber> {
        self.owner.get(index(number)).copied().flatten()
    }

    /// Whether racks say anything about these partitions: some member has one, member and replica
    /// racks meet, and not every partition has replicas in every rack (KIP-881).
    pub(super) fn racks_matter(&self, members: &[MemberNumber], partitions: Range<u32>) -> bool {
        let rows = self
            .replica_racks
            .get(index(partitions.start)..index(partitions.end));
        let rows = rows.unwrap_or_default();
        let mut all: Vec<u32> = rows.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let meets = members
            .iter()
            .filter_map(|member| self.members.get(index(*member))?.rack)
            .any(|rack| all.binary_search(&rack).is_ok());
        meets && rows.iter().any(|row| *row != all)
    }

    /// Whether `member` has a replica of `partition` in its rack; a member without rack is at home
    /// everywhere.
    pub(super) fn racks_match(&self, member: MemberNumber, partition: PartitionNumber) -> bool {
        let Some(rack) = self
            .members
            .get(index(member))
            .and_then(|member| member.rack)
        else {
            return true;
        };
        self.replica_racks
            .get(index(partition))
            .is_some_and(|row| row.contains(&rack))
    }
}

/// A number as an index.
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// An index as a number; indexes of a problem are bounded by its construction.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn number_racks(candidates: &[Candidate], topics: &[Topic]) -> BTreeMap<Rack, u32> {
    let of_members = candidates
        .iter()
        .filter_map(|candidate| candidate.rack.as_ref());
    let of_replicas = topics
        .iter()
        .flat_map(|topic| topic.replica_racks.iter().flatten());
    let mut racks: BTreeMap<Rack, u32> = BTreeMap::new();
    for rack in of_members.chain(of_replicas) {
        if !racks.contains_key(rack) {
            racks.insert(rack.clone(), number(racks.len()));
        }
    }
    racks
}

fn number_topics(
    candidates: &[Candidate],
    topics: &[Topic],
    racks: &BTreeMap<Rack, u32>,
) -> (Vec<NumberedTopic>, Vec<Vec<u32>>) {
    let mut subscribers: BTreeMap<&TopicName, Vec<MemberNumber>> = BTreeMap::new();
    for (member, candidate) in candidates.iter().enumerate() {
        for topic in &candidate.topics {
            let members = subscribers.entry(topic).or_default();
            if members.last() != Some(&number(member)) {
                members.push(number(member));
            }
        }
    }
    let known: BTreeMap<&TopicName, &Topic> =
        topics.iter().map(|topic| (&topic.name, topic)).collect();
    let mut numbered = Vec::with_capacity(subscribers.len());
    let mut replica_racks = Vec::new();
    for (name, members) in subscribers {
        let Some(topic) = known.get(name) else {
            continue;
        };
        numbered.push(NumberedTopic {
            name: name.clone(),
            first: number(replica_racks.len()),
            count: number(topic.replica_racks.len()),
            members,
        });
        replica_racks.extend(topic.replica_racks.iter().map(|row| {
            let mut row: Vec<u32> = row
                .iter()
                .filter_map(|rack| racks.get(rack).copied())
                .collect();
            row.sort_unstable();
            row.dedup();
            row
        }));
    }
    (numbered, replica_racks)
}

fn number_owners(
    candidates: &[Candidate],
    topics: &[NumberedTopic],
    partitions: usize,
) -> Vec<Option<MemberNumber>> {
    let by_name: BTreeMap<&TopicName, &NumberedTopic> =
        topics.iter().map(|topic| (&topic.name, topic)).collect();
    let mut claims: Vec<Option<Claim>> = vec![None; partitions];
    for (member, candidate) in candidates.iter().enumerate() {
        let member = number(member);
        for owned in &candidate.owned {
            let Some(topic) = by_name.get(&owned.topic) else {
                continue;
            };
            let Ok(partition) = u32::try_from(owned.partition.0) else {
                continue;
            };
            if partition >= topic.count || topic.members.binary_search(&member).is_err() {
                continue;
            }
            if let Some(claim) = claims.get_mut(index(topic.first.saturating_add(partition))) {
                Claim::put(claim, member, candidate.generation);
            }
        }
    }
    claims
        .into_iter()
        .map(|claim| claim.and_then(|claim| claim.owner))
        .collect()
}

/// The best claim to a partition so far.
#[derive(Clone, Copy)]
struct Claim {
    generation: Option<Generation>,
    owner: Option<MemberNumber>,
}

impl Claim {
    fn put(slot: &mut Option<Self>, member: MemberNumber, generation: Option<Generation>) {
        let fresh = Self {
            generation,
            owner: Some(member),
        };
        match slot {
            None => *slot = Some(fresh),
            Some(best) if best.generation < generation => *slot = Some(fresh),
            Some(best) if best.generation == generation && best.owner != Some(member) => {
                best.owner = None;
            }
            Some(_) => {}
        }
    }
}
