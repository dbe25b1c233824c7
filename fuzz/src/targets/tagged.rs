//! Tagged fields beside a slow reference: one structure that knows no tag, and one that knows four.

use bytes::Bytes;
use nearside::wire::api::api_versions::Feature;
use nearside::wire::{ApiKey, Response};

use crate::slow::{Varint, put_varint, varint};

/// The first byte chooses the structure, the rest is its tagged fields and what follows.
pub(super) fn run(data: &[u8]) {
    let Some((known, bytes)) = super::choose(data, 2) else {
        return;
    };
    let (api, version, head): (_, _, &[u8]) = if known == 1 {
        (ApiKey::ApiVersions, 3, &[0, 0, 1, 0, 0, 0, 0])
    } else {
        (ApiKey::Heartbeat, 4, &[0; 6])
    };
    let body = Bytes::from([head, bytes].concat());
    let read = Response::decode(api, version, &body);
    let mut slow = Slow {
        left: bytes,
        unknown: 0,
    };
    let mut said = Said::default();
    let understood = slow.tags(&mut |slow, tag| {
        if known == 1 {
            said.hear(slow, tag)
        } else {
            Some(false)
        }
    });
    match (read, understood) {
        (Ok((response, oddities)), Some(())) => {
            assert_eq!(oddities.unknown_tags, slow.unknown);
            assert_eq!(oddities.trailing_bytes, slow.left.len());
            if let Response::ApiVersions(response) = response {
                assert_eq!(response.features, said.features);
                let epoch = Some(said.epoch).filter(|epoch| *epoch >= 0);
                assert_eq!(response.features_epoch, epoch.filter(|_| said.told));
            }
        }
        (Err(_), None) => {}
        (read, understood) => panic!("{read:?} beside {understood:?}"),
    }
}

/// What the tags of ApiVersions say.
#[derive(Default)]
struct Said {
    told: bool,
    epoch: i64,
    features: Vec<Feature>,
}

impl Said {
    fn hear(&mut self, slow: &mut Slow<'_>, tag: u128) -> Option<bool> {
        match tag {
            0 => drop(slow.features()?),
            1 => (self.told, self.epoch) = (true, i64::from_be_bytes(slow.array()?)),
            2 => self.features = slow.features()?,
            3 => drop(slow.take(1)?),
            _ => return Some(false),
        }
        Some(true)
    }
}

/// Reads one thing after the other, and gives up with `None`.
struct Slow<'a> {
    left: &'a [u8],
    unknown: u32,
}

impl<'a> Slow<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u128> {
        let Varint::Value(number, used) = varint(self.left, 32) else {
            return None;
        };
        self.take(used)?;
        Some(number)
    }

    /// A length that is one more than it says, 0 being null.
    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?.checked_sub(1)?).ok()
    }

    fn tags(&mut self, known: &mut dyn FnMut(&mut Slow<'a>, u128) -> Option<bool>) -> Option<()> {
        let count = self.number()?;
        let mut tags = Vec::new();
        for _ in 0..count {
            let tag = self.number()?;
            let size = usize::try_from(self.number()?).ok()?;
            tags.push((tag, self.take(size)?));
            let mut inside = Slow {
                left: tags.last()?.1,
                unknown: 0,
            };
            let read = known(&mut inside, tag)?;
            let odd = !read || !inside.left.is_empty();
            self.unknown += inside.unknown + u32::from(odd);
        }
        tags.is_sorted_by(|one, two| one.0 < two.0).then_some(())
    }

    fn features(&mut self) -> Option<Vec<Feature>> {
        let mut features = Vec::new();
        for _ in 0..self.length()? {
            let length = self.length()?;
            let name = String::from_utf8(self.take(length)?.to_vec()).ok()?;
            let max_level = i16::from_be_bytes(self.array()?);
            let min_level = i16::from_be_bytes(self.array()?);
            self.tags(&mut |_, _| Some(false))?;
            if length > i16::MAX as usize {
                return None;
            }
            features.push(Feature {
                name,
                max_level,
                min_level,
            });
        }
        Some(features)
    }
}

/// Fields with their tags, as the wire has them.
fn fields(fields: &[(u128, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, fields.len() as u128);
    for (tag, bytes) in fields {
        put_varint(&mut out, *tag);
        put_varint(&mut out, bytes.len() as u128);
        out.extend(*bytes);
    }
    out
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let feature = b"\x02\x14transaction.version\0\x02\0\0\0";
    let tagged = b"\x02\x02a\0\x02\0\0\x02\x05\x01x\x09\0";
    let epoch = 7_i64.to_be_bytes();
    let lots = [
        fields(&[]),
        fields(&[(0, feature), (1, &epoch), (2, feature), (3, &[1])]),
        fields(&[(1, &epoch), (2, tagged), (9, b"later")]),
        fields(&[(1, &[&epoch[..], b"more"].concat())]),
        fields(&[(0, &[0])]),
        fields(&[(2, &[1]), (1, &epoch)]),
        fields(&[(5, b""), (5, b"")]),
        fields(&[(300, &[7; 200]), (1 << 31, b"x")]),
        [fields(&[(4, b"x")]), b"rest".to_vec()].concat(),
    ];
    let chosen = |known: u8| lots.clone().map(|lot| [vec![known], lot].concat());
    (0..2).flat_map(chosen).collect()
}
