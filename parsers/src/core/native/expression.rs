//! DWARF expressions of call-frame information: signal frames, procedure linkage tables, hand-written assembly.

use crate::core::memory::Memory;
use gimli::{Encoding, EndianSlice, Evaluation, EvaluationResult, Format, LittleEndian, Location, Value};

/// Operations of one expression at most.
const STEPS: u32 = 10_000;

/// The value of `expression`, with `first` on its stack to begin with; `None` where it asks for what a frame has not,
/// or for memory that is absent.
pub(super) fn value(
    expression: &[u8],
    first: Option<u64>,
    memory: &Memory,
    register: impl Fn(u16) -> Option<u64>,
) -> Option<u64> {
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
    let mut evaluation = Evaluation::new(EndianSlice::new(expression, LittleEndian), encoding);
    evaluation.set_max_iterations(STEPS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register: number, .. } => {
                evaluation.resume_with_register(Value::Generic(register(number.0)?)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let bytes = memory.bytes(address, u64::from(size.min(8))).ok()?;
                let mut word = [0u8; 8];
                word.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
                evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(word))).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Location::Address { address } => Some(address),
            Location::Register { register: number } => register(number.0),
            Location::Value { value: Value::Generic(value) } => Some(value),
            _ => None,
        },
        _ => None,
    }
}
