//! The stored form of a `for_each`, its template and its elements.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{ElementPart, ElementState, ElementTemplate, ForEach};
use crate::codec::{Corrupt, Fields, Writer, put_varint, take_varint};
use crate::id::JobId;
use crate::job::{Head, Input};
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;
use crate::workflow::WorkflowStep;
use crate::workflow::layout::{
    numbers, pick, read_error, read_numbers, read_place, write_error, write_place,
};
use crate::workflow::work::layout::{read_piece, write_args};

impl Stored for ForEach {
    const KIND: RecordKind = RecordKind::ForEach;

    fn key(&self) -> String {
        self.id.to_string()
    }

    /// When its list is to be read.
    fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.source.to_bytes());
        out.text(2, Some(&self.pointer));
        out.number(3, u64::from(self.parallel));
        out.flag(4, self.stops);
        out.flag(5, self.is_whole);
        out.time(6, self.due_at);
        out.bytes(7, &numbers(&self.parts));
        out.bytes(8, &runs(&self.states));
        out.number(9, u64::from(self.n_begun));
        let remade: Vec<u32> = self.remade.iter().flat_map(|(&index, &n)| [index, u32::from(n)]).collect();
        out.bytes(10, &numbers(&remade));
        self.errors.iter().for_each(|error| out.group(11, |out| write_error(error, out)));
        out.group(12, |out| write_place(&self.outer, out));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ForEach, Corrupt> {
        let mut found = ForEach {
            id: key.parse().map_err(|_| Corrupt)?,
            outer: WorkflowStep { workflow: JobId::from_u128(0), index: 0 },
            source: JobId::from_u128(0),
            pointer: String::new(),
            parallel: 0,
            stops: false,
            is_whole: false,
            due_at: None,
            parts: Vec::new(),
            states: Vec::new(),
            n_begun: 0,
            remade: BTreeMap::new(),
            errors: Vec::new(),
            first_waiting: 0,
            n_released: 0,
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => found.source = JobId::from_u128(field.id()?),
                2 => found.pointer = field.text()?,
                3 => found.parallel = field.small()?,
                4 => found.stops = field.flag()?,
                5 => found.is_whole = field.flag()?,
                6 => found.due_at = Some(field.time()?),
                7 => found.parts = read_numbers(field.bytes)?,
                8 => found.states = read_runs(field.bytes)?,
                9 => found.n_begun = field.small()?,
                10 => found.remade = read_pairs(&read_numbers(field.bytes)?)?,
                11 => found.errors.push(read_error(field.bytes)?),
                12 => found.outer = read_place(field.bytes)?,
                _ => {}
            }
        }
        found.n_released = found.count(ElementState::Released);
        Ok(found)
    }
}

/// Runs of equal states: length and state in one number.
fn runs(states: &[ElementState]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in states.chunk_by(|one, next| one == next) {
        put_varint(&mut bytes, (run.len() as u64) << 2 | run[0] as u64);
    }
    bytes
}

fn read_runs(mut bytes: &[u8]) -> Result<Vec<ElementState>, Corrupt> {
    let mut states = Vec::new();
    while !bytes.is_empty() {
        let run = take_varint(&mut bytes)?;
        let (n, state) = ((run >> 2) as usize, pick(run & 3, &ElementState::ALL)?);
        if n > limits::ELEMENTS_MAX - states.len() {
            return Err(Corrupt);
        }
        states.resize(states.len() + n, state);
    }
    Ok(states)
}

fn read_pairs(numbers: &[u32]) -> Result<BTreeMap<u32, u8>, Corrupt> {
    let pair = |pair: &[u32]| match *pair {
        [index, n] => Ok((index, u8::try_from(n).map_err(|_| Corrupt)?)),
        _ => Err(Corrupt),
    };
    numbers.chunks(2).map(pair).collect()
}

impl Stored for ElementTemplate {
    const KIND: RecordKind = RecordKind::ElementTemplate;

    fn key(&self) -> String {
        self.for_each.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.head.encode());
        out.bytes(2, &self.input.encode());
        write_args(&self.args, &mut out);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ElementTemplate, Corrupt> {
        let for_each = key.parse().map_err(|_| Corrupt)?;
        let (mut head, mut input, mut args) = (None, Input::default(), Vec::new());
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => head = Some(Head::decode(field.bytes)?),
                2 => input = Input::decode(field.bytes)?,
                tag => args.extend(read_piece(tag, field.bytes)),
            }
        }
        Ok(ElementTemplate { for_each, head: Arc::new(head.ok_or(Corrupt)?), input, args })
    }
}

impl ElementPart {
    pub fn key_of(for_each: JobId, n: u32) -> String {
        format!("{for_each}/{n:05}")
    }
}

impl Stored for ElementPart {
    const KIND: RecordKind = RecordKind::ElementPart;

    fn key(&self) -> String {
        ElementPart::key_of(self.for_each, self.n)
    }

    fn group(&self) -> String {
        self.for_each.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer(&mut bytes);
        out.number(1, u64::from(self.first));
        self.elements.iter().for_each(|element| out.bytes(2, element));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ElementPart, Corrupt> {
        let (for_each, n) = key.split_once('/').ok_or(Corrupt)?;
        let for_each = for_each.parse().map_err(|_| Corrupt)?;
        let n = n.parse().map_err(|_| Corrupt)?;
        let mut part = ElementPart { for_each, n, first: 0, elements: Vec::new() };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => part.first = field.small()?,
                2 => part.elements.push(field.bytes.to_vec()),
                _ => {}
            }
        }
        Ok(part)
    }
}
