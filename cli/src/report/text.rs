//! Text for terminals and chats.

use super::{Incident, Style};

/// Writes the screen.
pub fn write(incident: &Incident<'_>, style: &Style) -> String {
    let _ = style;
    let verdict = &incident.diagnosis.verdict;
    format!("{}   {}\n", verdict.kind.as_str().to_uppercase(), verdict.summary)
}
