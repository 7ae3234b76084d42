//! The grammar of Go tracebacks: every text that the runtime printed from Go 1.4 to 1.27.
//!
//! The way of a text: [`lines`] walks it, [`scan`] turns it into items (goroutines by [`block`], which reads [`header`]
//! and [`frame`] lines and finds call [`sites`]; lines around them by [`notices`] and [`marks`]; `debug=1` by
//! [`profile`], race reports by [`race`]), [`dump`] decides which items are one moment, [`snapshot`] builds the evidence. What other
//! tools print is read by [`other_tools`]. Large texts are read by all cores ([`parts`]).

mod block;
mod dump;
mod frame;
mod header;
mod hints;
mod lines;
mod marks;
mod notices;
mod other_tools;
mod pairing;
mod parts;
mod profile;
mod profile_proto;
mod race;
mod scan;
mod sites;
mod snapshot;

pub use profile_proto::parse_proto;

use crate::envelope::Stream;
use crate::evidence::Snapshot;

/// Reads every dump in `stream`; several dumps are several snapshots. Empty when there is none.
pub fn parse(stream: &Stream) -> Vec<Snapshot> {
    let text = stream.text.bytes();
    let mut scan = parts::scan(text);
    let drafts = dump::drafts(&mut scan, text);
    let mut snapshots = snapshot::snapshots(stream, scan, drafts);
    other_tools::add(stream, &mut snapshots);
    snapshots
}
