//! Equal stacks of which there are more and more.

use super::hands::Hands;
use super::model::Growing;
use super::moments::{Strand, snap_of};
use super::standing::Standing;
use crate::case::Case;
use crate::describe;
use rustc_hash::FxHashMap;

/// Fewer more than this are everyday.
const LEAST: u64 = 3;
/// The same of what is idle by design: a pool follows its load.
const IDLE: u64 = 100;
/// Growth of this share of what there was (in percent) is worth telling.
const SHARE: u64 = 10;

/// Stacks whose number never fell and has grown, most growth first.
pub fn growing(cases: &[Case<'_>], strand: &Strand, standing: &Standing, hands: &Hands) -> Vec<Growing> {
    let sights = strand.sights.len();
    let last = sights - 1;
    let mut counts: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
    let mut shown: FxHashMap<u64, u32> = FxHashMap::default();
    for (n, &sight) in strand.sights.iter().enumerate() {
        let snap = snap_of(cases, sight);
        for (group, &place) in snap.groups.iter().zip(standing.places(n)) {
            let members = group.members.iter().map(|&m| u64::from(snap.goroutine(m as usize).count));
            counts.entry(place).or_insert_with(|| vec![0; sights])[n] += members.sum::<u64>();
            if n == last
                && let Some(&first) = group.members.first()
            {
                shown.entry(place).or_insert(first);
            }
        }
    }
    let snap = snap_of(cases, strand.sights[last]);
    let mut found: Vec<(u64, Growing)> = Vec::new();
    for (place, counts) in counts {
        let (first, end) = (counts[0], counts[last]);
        let more = end.saturating_sub(first);
        if more < LEAST.max(first * SHARE / 100) || counts.windows(2).any(|pair| pair[1] < pair[0]) {
            continue;
        }
        let Some(&i) = shown.get(&place) else { continue };
        let i = i as usize;
        let g = snap.goroutine(i);
        if snap.idle(i).is_some() && more < IDLE {
            continue;
        }
        let doing = describe::doing(snap, i);
        found.push((
            more,
            Growing {
                signature: format!("{place:016x}"),
                function: doing.function,
                state: snap.s.names.get(g.state).to_string(),
                created_by: g.created_by.map(|c| snap.s.function(c.site).to_string()),
                counts,
                stayed: g.id.map(|_| standing.stayed(cases, strand, place)),
                waits_for: hands.waited_for(last, i).map(|l| hands.id(l)),
                idle: snap.idle(i).map(str::to_string),
                place: super::place(cases, strand.sights[last], doing.line),
            },
        ));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.signature.cmp(&b.1.signature)));
    found.into_iter().map(|(_, growing)| growing).collect()
}
