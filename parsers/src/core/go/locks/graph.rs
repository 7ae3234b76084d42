//! The control flow graph of a function, instruction by instruction.

/// What an instruction leads to: the next one, a branch's target.
pub(super) type Successors = [Option<u32>; 2];

/// What leads to each instruction.
pub(super) fn predecessors(next: &[Successors]) -> Vec<Vec<u32>> {
    let mut before = vec![Vec::new(); next.len()];
    for (index, successors) in next.iter().enumerate() {
        for successor in successors.iter().flatten() {
            if let Some(list) = before.get_mut(*successor as usize) {
                list.push(index as u32);
            }
        }
    }
    before
}

/// Which instructions every way from the entry to `here` leads through (the dominators of `here`).
///
/// Immediate dominators after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
pub(super) fn passed(next: &[Successors], here: usize) -> Vec<bool> {
    let order = postorder(next);
    let mut rank = vec![usize::MAX; next.len()];
    for (i, &node) in order.iter().enumerate() {
        if let Some(slot) = rank.get_mut(node) {
            *slot = i;
        }
    }
    let rank_of = |node: usize| rank.get(node).copied().unwrap_or(usize::MAX);
    let before = predecessors(next);
    let mut dominator: Vec<Option<usize>> = vec![None; next.len()];
    if let Some(entry) = dominator.first_mut() {
        *entry = Some(0);
    }
    let of = |dominator: &[Option<usize>], node: usize| dominator.get(node).copied().flatten();
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().rev().filter(|&&node| node != 0) {
            let mut best: Option<usize> = None;
            for &previous in before.get(node).into_iter().flatten() {
                let previous = previous as usize;
                if of(&dominator, previous).is_none() {
                    continue;
                }
                best = Some(match best {
                    None => previous,
                    Some(other) => meet(previous, other, &dominator, rank_of),
                });
            }
            if best.is_some() && of(&dominator, node) != best {
                if let Some(slot) = dominator.get_mut(node) {
                    *slot = best;
                }
                changed = true;
            }
        }
    }
    let mut passed = vec![false; next.len()];
    let mut at = here;
    for _ in 0..=next.len() {
        if let Some(slot) = passed.get_mut(at) {
            *slot = true;
        }
        match of(&dominator, at) {
            Some(up) if up != at => at = up,
            _ => break,
        }
    }
    passed
}

fn meet(mut a: usize, mut b: usize, dominator: &[Option<usize>], rank: impl Fn(usize) -> usize) -> usize {
    while a != b {
        let lower = if rank(a) < rank(b) { &mut a } else { &mut b };
        match dominator.get(*lower).copied().flatten() {
            Some(up) if up != *lower => *lower = up,
            _ => return 0,
        }
    }
    a
}

fn postorder(next: &[Successors]) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; next.len()]);
    let mut stack = vec![(0usize, 0usize)];
    if let Some(first) = seen.first_mut() {
        *first = true;
    }
    while let Some((node, edge)) = stack.pop() {
        let Some(successors) = next.get(node) else { continue };
        match successors.get(edge) {
            None => order.push(node),
            Some(successor) => {
                stack.push((node, edge + 1));
                if let Some(to) = successor.map(|to| to as usize)
                    && seen.get(to) == Some(&false)
                {
                    if let Some(slot) = seen.get_mut(to) {
                        *slot = true;
                    }
                    stack.push((to, 0));
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_way_leads_through() {
        // 0 → 1 → (2 | 3) → 4 → 1, 4 → 5; 6 is never reached.
        let next: Vec<Successors> = vec![
            [Some(1), None],
            [Some(2), Some(3)],
            [Some(4), None],
            [Some(4), None],
            [Some(5), Some(1)],
            [None, None],
            [Some(5), None],
        ];
        assert_eq!(passed(&next, 5), [true, true, false, false, true, true, false]);
        assert_eq!(passed(&next, 3), [true, true, false, true, false, false, false]);
        assert_eq!(predecessors(&next)[4], [2, 3]);
    }
}
