//! Where boxes and arrows of a graph lie: layers from the symptom down to the root (Sugiyama's method).
//!
//! Cycles are broken at one arrow each, which is then drawn against the stream; arrows over several layers are led
//! through points of their own; each layer is ordered by the middle of its neighbours, and placed as close to them
//! as the order allows (isotonic regression).

/// A box to place.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// A point.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The finished drawing.
#[derive(Debug, Default)]
pub struct Layout {
    /// Middle of each box.
    pub boxes: Vec<Point>,
    /// For each arrow the points that it goes through, from the waiting box's border to the other's.
    pub arrows: Vec<Vec<Point>>,
    /// Whether an arrow was turned to break a cycle.
    pub turned: Vec<bool>,
    /// Size of everything.
    pub width: f64,
    /// Size of everything.
    pub height: f64,
}

/// Space between boxes of a layer.
const BESIDE: f64 = 28.0;
/// Space between layers; arrows' words stand there.
const BETWEEN: f64 = 46.0;
/// Space around everything.
const MARGIN: f64 = 14.0;
/// Width that an arrow takes in a layer that it passes.
const LANE: f64 = 20.0;

/// Lays out boxes and arrows (indexes of boxes). Boxes on the `spine` stand as straight below each other as can be.
pub fn lay_out(sizes: &[Size], arrows: &[(usize, usize)], spine: &[bool]) -> Layout {
    if sizes.is_empty() {
        return Layout::default();
    }
    let turned = break_cycles(sizes.len(), arrows);
    let down: Vec<(usize, usize)> =
        arrows.iter().zip(&turned).map(|(&(a, b), &turned)| if turned { (b, a) } else { (a, b) }).collect();
    let layer = layers(sizes.len(), &down);
    let mut net = Net::new(sizes, &layer, &down);
    net.spine = (0..net.width.len()).map(|node| spine.get(node).copied().unwrap_or(false)).collect();
    net.order();
    net.place();
    net.finish(sizes, arrows, turned)
}

/// Finds arrows whose turning leaves no cycle, by depth-first search in the order of the boxes. A box that waits for
/// itself counts as turned.
fn break_cycles(count: usize, arrows: &[(usize, usize)]) -> Vec<bool> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, &(from, _)) in arrows.iter().enumerate() {
        out[from].push(index);
    }
    let mut turned = vec![false; arrows.len()];
    // 0 not seen, 1 on the way, 2 done.
    let mut state = vec![0u8; count];
    for start in 0..count {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut stack = vec![(start, 0usize)];
        while let Some((node, next)) = stack.pop() {
            let Some(&arrow) = out[node].get(next) else {
                state[node] = 2;
                continue;
            };
            stack.push((node, next + 1));
            let to = arrows[arrow].1;
            match state[to] {
                0 => {
                    state[to] = 1;
                    stack.push((to, 0));
                }
                1 => turned[arrow] = true,
                _ => {}
            }
        }
    }
    turned
}

/// Layer of each box: what is waited for lies below; who waits as near above as it can.
fn layers(count: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting: Vec<usize> = vec![0; count];
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &(from, to) in down.iter().filter(|(from, to)| from != to) {
        out[from].push(to);
        into[to].push(from);
        waiting[from] += 1;
    }
    let mut height = vec![0usize; count];
    let mut ready: Vec<usize> = (0..count).filter(|&node| waiting[node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &from in &into[node] {
            height[from] = height[from].max(height[node] + 1);
            waiting[from] -= 1;
            if waiting[from] == 0 {
                ready.push(from);
            }
        }
    }
    let top = height.iter().copied().max().unwrap_or(0);
    height.iter().map(|h| top - h).collect()
}

/// Boxes and the points of long arrows, by layer.
struct Net {
    width: Vec<f64>,
    layer: Vec<usize>,
    up: Vec<Vec<usize>>,
    down: Vec<Vec<usize>>,
    rows: Vec<Vec<usize>>,
    x: Vec<f64>,
    spine: Vec<bool>,
    /// For each arrow its inner points, from its upper to its lower end.
    paths: Vec<Vec<usize>>,
}

impl Net {
    fn new(sizes: &[Size], layer: &[usize], arrows: &[(usize, usize)]) -> Net {
        let mut net = Net {
            width: sizes.iter().map(|size| size.width).collect(),
            layer: layer.to_vec(),
            up: vec![Vec::new(); sizes.len()],
            down: vec![Vec::new(); sizes.len()],
            rows: vec![Vec::new(); layer.iter().copied().max().unwrap_or(0) + 1],
            x: Vec::new(),
            spine: Vec::new(),
            paths: Vec::new(),
        };
        for &(from, to) in arrows {
            let mut path = Vec::new();
            let mut above = from;
            if from != to {
                for between in layer[from] + 1..layer[to] {
                    net.width.push(LANE);
                    net.layer.push(between);
                    net.up.push(Vec::new());
                    net.down.push(Vec::new());
                    let point = net.width.len() - 1;
                    net.link(above, point);
                    path.push(point);
                    above = point;
                }
                net.link(above, to);
            }
            net.paths.push(path);
        }
        for node in 0..net.width.len() {
            net.rows[net.layer[node]].push(node);
        }
        net.x = vec![0.0; net.width.len()];
        net
    }

    fn link(&mut self, above: usize, below: usize) {
        self.down[above].push(below);
        self.up[below].push(above);
    }

    /// Sorts each layer by the middle of its neighbours, downwards and upwards in turn, and keeps the order with the
    /// fewest crossings.
    fn order(&mut self) {
        let mut place = vec![0usize; self.width.len()];
        let number = |rows: &[Vec<usize>], place: &mut [usize]| {
            for row in rows {
                for (i, &node) in row.iter().enumerate() {
                    place[node] = i;
                }
            }
        };
        number(&self.rows, &mut place);
        let mut best = (self.crossings(&place), self.rows.clone());
        for sweep in 0..12 {
            let downwards = sweep % 2 == 0;
            let count = self.rows.len();
            for step in 1..count {
                let at = if downwards { step } else { count - 1 - step };
                let neighbours = if downwards { &self.up } else { &self.down };
                let middle = |node: usize| {
                    let around = &neighbours[node];
                    match around.len() {
                        0 => place[node] as f64,
                        n => around.iter().map(|&other| place[other] as f64).sum::<f64>() / n as f64,
                    }
                };
                let mut row: Vec<(f64, usize)> = self.rows[at].iter().map(|&node| (middle(node), node)).collect();
                row.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[at] = row.into_iter().map(|(_, node)| node).collect();
                for (i, &node) in self.rows[at].iter().enumerate() {
                    place[node] = i;
                }
            }
            let crossings = self.crossings(&place);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
            if best.0 == 0 {
                break;
            }
        }
        self.rows = best.1;
    }

    fn crossings(&self, place: &[usize]) -> usize {
        let mut count = 0;
        for row in &self.rows {
            let mut ends: Vec<(usize, usize)> = row
                .iter()
                .flat_map(|&node| self.down[node].iter().map(move |&to| (node, to)))
                .map(|(a, b)| (place[a], place[b]))
                .collect();
            ends.sort_unstable();
            // Inversions among the lower ends, by insertion into a sorted list: layers are a few hundred wide.
            let mut seen: Vec<usize> = Vec::with_capacity(ends.len());
            for (_, below) in ends {
                let at = seen.partition_point(|&other| other <= below);
                count += seen.len() - at;
                seen.insert(at, below);
            }
        }
        count
    }

    /// Gives each layer its horizontal places.
    fn place(&mut self) {
        for row in &self.rows {
            let mut x = 0.0;
            for &node in row {
                self.x[node] = x + self.width[node] / 2.0;
                x += self.width[node] + BESIDE;
            }
        }
        for pass in 0..24 {
            let count = self.rows.len();
            for step in 0..count {
                let at = if pass % 2 == 0 { step } else { count - 1 - step };
                let wanted: Vec<(f64, f64)> = self.rows[at].iter().map(|&node| self.wish(node)).collect();
                self.squeeze(at, &wanted);
            }
        }
    }

    /// Where a box wants to be, and how much: the spine upon one line, the others in the middle of their neighbours.
    fn wish(&self, node: usize) -> (f64, f64) {
        if self.spine[node] {
            return (0.0, 60.0);
        }
        let around = || self.up[node].iter().chain(&self.down[node]);
        match around().count() {
            0 => (self.x[node], 1.0),
            n => (around().map(|&other| self.x[other]).sum::<f64>() / n as f64, 1.0),
        }
    }

    /// Puts a layer's boxes as near to where they want to be as their order and widths allow.
    fn squeeze(&mut self, at: usize, wanted: &[(f64, f64)]) {
        let row = &self.rows[at];
        let mut offsets = Vec::with_capacity(row.len());
        let mut offset = 0.0;
        for (i, &node) in row.iter().enumerate() {
            if i > 0 {
                offset += (self.width[row[i - 1]] + self.width[node]) / 2.0 + BESIDE;
            }
            offsets.push(offset);
        }
        // Pools of boxes that touch: weighted sum of wishes, weight, count.
        let mut pools: Vec<(f64, f64, usize)> = Vec::new();
        for ((want, weight), offset) in wanted.iter().zip(&offsets) {
            let mut pool = ((want - offset) * weight, *weight, 1);
            while let Some(last) = pools.last().filter(|last| last.0 / last.1 > pool.0 / pool.1) {
                pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
                pools.pop();
            }
            pools.push(pool);
        }
        let mut next = 0;
        for (sum, weight, count) in pools {
            for _ in 0..count {
                self.x[row[next]] = sum / weight + offsets[next];
                next += 1;
            }
        }
    }

    fn finish(self, sizes: &[Size], arrows: &[(usize, usize)], turned: Vec<bool>) -> Layout {
        let tallest = sizes.iter().map(|size| size.height).fold(0.0, f64::max);
        let left = (0..self.width.len()).map(|n| self.x[n] - self.width[n] / 2.0).fold(f64::INFINITY, f64::min);
        let right = (0..self.width.len()).map(|n| self.x[n] + self.width[n] / 2.0).fold(f64::NEG_INFINITY, f64::max);
        let y = |node: usize| MARGIN + tallest / 2.0 + self.layer[node] as f64 * (tallest + BETWEEN);
        let at = |node: usize| Point { x: self.x[node] - left + MARGIN, y: y(node) };
        let mut layout = Layout {
            boxes: (0..sizes.len()).map(at).collect(),
            width: right - left + 2.0 * MARGIN,
            height: self.rows.len() as f64 * (tallest + BETWEEN) - BETWEEN + 2.0 * MARGIN,
            ..Layout::default()
        };
        // A turned arrow runs beside the arrow that goes the other way, so it leaves and arrives to the right.
        for (index, &(from, to)) in arrows.iter().enumerate() {
            let half = sizes[from].height / 2.0;
            let (a, b) = (at(from), at(to));
            let mut points = Vec::new();
            if from == to {
                let x = a.x + sizes[from].width / 2.0;
                points.extend(
                    [(x, a.y - 8.0), (x + 26.0, a.y - 8.0), (x + 26.0, a.y + 8.0), (x, a.y + 8.0)]
                        .map(|(x, y)| Point { x, y }),
                );
                layout.width = layout.width.max(x + 26.0 + MARGIN);
            } else if turned[index] && self.paths[index].is_empty() {
                let aside = (sizes[from].width.min(sizes[to].width) / 2.0 - 24.0).max(0.0);
                points.push(Point { x: a.x + aside, y: a.y - half });
                points.push(Point { x: b.x + aside, y: b.y + sizes[to].height / 2.0 });
            } else {
                let upwards = turned[index];
                let side = if upwards { -1.0 } else { 1.0 };
                points.push(Point { x: a.x, y: a.y + side * half });
                let inner = self.paths[index].iter().map(|&node| at(node));
                if upwards {
                    points.extend(inner.rev())
                } else {
                    points.extend(inner)
                }
                points.push(Point { x: b.x, y: b.y - side * sizes[to].height / 2.0 });
            }
            layout.arrows.push(points);
        }
        layout.turned = turned;
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(count: usize) -> Vec<Size> {
        vec![Size { width: 100.0, height: 40.0 }; count]
    }

    fn apart(layout: &Layout, sizes: &[Size]) -> bool {
        (0..sizes.len()).all(|i| {
            (0..i).all(|j| {
                let (a, b) = (layout.boxes[i], layout.boxes[j]);
                (a.x - b.x).abs() >= (sizes[i].width + sizes[j].width) / 2.0 - 1e-6
                    || (a.y - b.y).abs() >= (sizes[i].height + sizes[j].height) / 2.0
            })
        })
    }

    #[test]
    fn a_chain_runs_straight_down() {
        let layout = lay_out(&boxes(4), &[(0, 1), (1, 2), (2, 3)], &[]);
        assert!(layout.boxes.windows(2).all(|pair| pair[0].x == pair[1].x && pair[0].y < pair[1].y));
    }

    #[test]
    fn a_cycle_is_turned_once() {
        let layout = lay_out(&boxes(4), &[(0, 1), (1, 2), (2, 3), (3, 0)], &[]);
        assert_eq!(layout.turned, [false, false, false, true]);
        let back = &layout.arrows[3];
        assert!(back[0].y > back[back.len() - 1].y, "it runs up: {back:?}");
        lay_out(&boxes(1), &[(0, 0)], &[]);
    }

    #[test]
    fn boxes_never_overlap() {
        // A fixed sequence stands for chance.
        let mut seed = 7u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for count in [1, 2, 5, 40, 300] {
            let arrows: Vec<_> = (0..count * 2).map(|_| (next(count), next(count))).collect();
            let sizes: Vec<_> = (0..count).map(|_| Size { width: 60.0 + next(200) as f64, height: 48.0 }).collect();
            let layout = lay_out(&sizes, &arrows, &[]);
            assert!(apart(&layout, &sizes), "{count} boxes");
            assert!(layout.boxes.iter().all(|p| p.x > 0.0 && p.x < layout.width && p.y > 0.0 && p.y < layout.height));
        }
    }
}
