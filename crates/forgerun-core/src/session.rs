//! Operator sessions that were logged out. The signed cookie holds the session, so only its end
//! needs a record: all nodes, including later ones, then refuse the cookie.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::record::{RecordKind, Stored};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    pub id: u128,
    /// When the session would have expired.
    pub until: Time,
}

impl EndedSession {
    /// Key of the record of this session.
    pub fn key_of(id: u128) -> String {
        format!("{id:032x}")
    }
}

impl Stored for EndedSession {
    const KIND: RecordKind = RecordKind::EndedSession;

    fn key(&self) -> String {
        EndedSession::key_of(self.id)
    }

    /// When the cookie has expired anyway.
    fn due_at(&self) -> Option<Time> {
        Some(self.until)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16);
        Writer(&mut bytes).time(1, Some(self.until));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<EndedSession, Corrupt> {
        let id = u128::from_str_radix(key, 16).map_err(|_| Corrupt)?;
        let mut until = Time::ZERO;
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                until = field.time()?;
            }
        }
        Ok(EndedSession { id, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_session_is_read_back_as_it_was_written() {
        let ended = EndedSession { id: 5 << 80, until: Time::from_millis(77) };
        assert_eq!(EndedSession::of(&ended.to_record(1)), Ok(ended));
        assert_eq!(EndedSession::decode("x", &[]), Err(Corrupt));
    }
}
