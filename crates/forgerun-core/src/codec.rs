//! The binary format of rows that stores keep as opaque bytes: tagged fields, so that a newer
//! version reads rows of an older one, and unknown fields are skipped.
//!
//! A field is `tag (1 byte), length (varint), bytes`. Numbers are varints, signed ones zigzag.
//! Input is not trusted: a truncated or overlong buffer is [`Corrupt`], never a panic.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::time::Time;

/// Stored bytes that this version cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stored bytes are cut short or malformed")
    }
}

impl core::error::Error for Corrupt {}

/// Appends tagged fields to a buffer.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        put_varint(self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, tag: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.bytes(tag, text.as_bytes());
        }
    }

    /// Zero is omitted: a missing number reads as zero.
    pub(crate) fn number(&mut self, tag: u8, number: u64) {
        if number != 0 {
            let mut field = [0; 2 + VARINT_MAX];
            let len = lay_varint(&mut field[2..], number);
            field[..2].copy_from_slice(&[tag, len as u8]);
            self.0.extend_from_slice(&field[..2 + len]);
        }
    }

    pub(crate) fn flag(&mut self, tag: u8, flag: bool) {
        self.number(tag, u64::from(flag));
    }

    pub(crate) fn time(&mut self, tag: u8, time: Option<Time>) {
        if let Some(time) = time {
            // Shifted by one, so that the epoch itself is not omitted.
            self.number(tag, zigzag(time.as_micros()).wrapping_add(1));
        }
    }

    pub(crate) fn span(&mut self, tag: u8, span: Option<Duration>) {
        if let Some(span) = span {
            self.number(tag, micros(span).saturating_add(1));
        }
    }

    /// A nested group, written in place: its length takes one byte, which nearly always suffices.
    pub(crate) fn group(&mut self, tag: u8, write: impl FnOnce(&mut Writer<'_>)) {
        self.0.extend_from_slice(&[tag, 0]);
        let start = self.0.len();
        write(self);
        let mut length = [0; VARINT_MAX];
        let len = lay_varint(&mut length, (self.0.len() - start) as u64);
        self.0[start - 1] = length[0];
        if len > 1 {
            self.0.splice(start..start, length[1..len].iter().copied());
        }
    }
}

/// One field as read, with its decoders.
pub(crate) struct Field<'a> {
    pub(crate) tag: u8,
    pub(crate) bytes: &'a [u8],
}

impl Field<'_> {
    pub(crate) fn text(&self) -> Result<String, Corrupt> {
        self.str().map(String::from)
    }

    pub(crate) fn str(&self) -> Result<&str, Corrupt> {
        core::str::from_utf8(self.bytes).map_err(|_| Corrupt)
    }

    pub(crate) fn number(&self) -> Result<u64, Corrupt> {
        let mut rest = self.bytes;
        let number = take_varint(&mut rest)?;
        if rest.is_empty() { Ok(number) } else { Err(Corrupt) }
    }

    pub(crate) fn small<T: TryFrom<u64>>(&self) -> Result<T, Corrupt> {
        T::try_from(self.number()?).map_err(|_| Corrupt)
    }

    pub(crate) fn flag(&self) -> Result<bool, Corrupt> {
        Ok(self.number()? != 0)
    }

    pub(crate) fn time(&self) -> Result<Time, Corrupt> {
        Ok(Time::from_micros(unzigzag(self.number()?.wrapping_sub(1))))
    }

    pub(crate) fn span(&self) -> Result<Duration, Corrupt> {
        Ok(Duration::from_micros(self.number()?.checked_sub(1).ok_or(Corrupt)?))
    }

    pub(crate) fn id(&self) -> Result<u128, Corrupt> {
        Ok(u128::from_be_bytes(self.bytes.try_into().map_err(|_| Corrupt)?))
    }
}

/// Iterates over the fields of a buffer.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        self.0 = rest;
        match take_slice(&mut self.0) {
            Ok(bytes) => Some(Ok(Field { tag, bytes })),
            Err(corrupt) => {
                self.0 = &[];
                Some(Err(corrupt))
            }
        }
    }
}

/// Bytes of the longest varint.
pub(crate) const VARINT_MAX: usize = 10;

/// Writes a varint at the beginning of `out` and returns its length. Many small numbers are written
/// into a buffer at once, which is much faster than byte by byte.
pub(crate) fn lay_varint(out: &mut [u8], mut number: u64) -> usize {
    let mut last = 0;
    while number >= 0x80 {
        out[last] = number as u8 | 0x80;
        number >>= 7;
        last += 1;
    }
    out[last] = number as u8;
    last + 1
}

pub(crate) fn put_varint(out: &mut Vec<u8>, number: u64) {
    let mut bytes = [0; VARINT_MAX];
    let len = lay_varint(&mut bytes, number);
    out.extend_from_slice(&bytes[..len]);
}

pub(crate) fn take_varint(from: &mut &[u8]) -> Result<u64, Corrupt> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first().ok_or(Corrupt)?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Corrupt)
}

/// Splits off a length-prefixed slice.
pub(crate) fn take_slice<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Corrupt> {
    let len = usize::try_from(take_varint(from)?).map_err(|_| Corrupt)?;
    let (bytes, rest) = from.split_at_checked(len).ok_or(Corrupt)?;
    *from = rest;
    Ok(bytes)
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

const fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_times_and_texts_come_back(number: u64, micros in -1_000_000_000_000_000_000i64.., text: String) {
            let mut bytes = Vec::new();
            let mut writer = Writer(&mut bytes);
            writer.number(1, number);
            writer.time(2, Some(Time::from_micros(micros)));
            writer.text(3, Some(&text));
            let (mut read_number, mut read_time, mut read_text) = (0, None, None);
            for field in Fields(&bytes) {
                let field = field.unwrap();
                match field.tag {
                    1 => read_number = field.number().unwrap(),
                    2 => read_time = Some(field.time().unwrap()),
                    _ => read_text = Some(field.text().unwrap()),
                }
            }
            prop_assert_eq!((read_number, read_time), (number, Some(Time::from_micros(micros))));
            prop_assert_eq!(read_text, Some(text));
        }

        #[test]
        fn groups_of_any_length_come_back(text in ".{0,300}", after: u64) {
            let mut bytes = Vec::new();
            let mut writer = Writer(&mut bytes);
            writer.group(1, |group| group.group(2, |inner| inner.text(3, Some(&text))));
            writer.number(4, after);
            let first = |bytes| Fields(bytes).next().unwrap().unwrap();
            let (outer, last) = (first(&bytes), Fields(&bytes).nth(1));
            let inner = first(first(outer.bytes).bytes);
            prop_assert_eq!((outer.tag, inner.tag, inner.text()), (1, 3, Ok(text)));
            prop_assert_eq!(last.map_or(0, |field| field.unwrap().number().unwrap()), after);
        }

        #[test]
        fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
            for field in Fields(&bytes).flatten() {
                let _ = (field.number(), field.text(), field.time(), field.span(), field.id());
            }
        }
    }
}
