//! How a test reads a sample, and how it checks that a record's place is where the record says.

use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{InputKind, LineMap, NodeEvidence, Place, Text};
use holdup_parsers::node;

/// A sample of `corpus/node`.
pub fn sample(name: &str) -> String {
    let path = format!("{}/../corpus/node/{name}", env!("CARGO_MANIFEST_DIR"));
    String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))).into_owned()
}

/// Parses `text` as a file named `path`.
pub fn parse_as(path: &str, text: &str) -> Option<(InputKind, NodeEvidence)> {
    let text = Text::from_vec(text.as_bytes().to_vec());
    node::parse(&Stream { text, lines: LineMap::identity(7), ..Stream::default() }, path, 7)
}

/// Parses `text` under a name that says nothing.
pub fn parse(text: &str) -> (InputKind, NodeEvidence) {
    parse_as("paste.txt", text).expect("node evidence")
}

/// The line of `text` at `place`, which must be in the one input there is.
pub fn line(text: &str, place: Option<Place>) -> &str {
    let place = place.expect("a place");
    assert_eq!(place.input, 7);
    text.lines().nth(place.line as usize - 1).expect("a line")
}

/// Line `number` of `text`.
pub fn line_at(text: &str, number: u32) -> &str {
    text.lines().nth(number as usize - 1).expect("a line")
}
