//! Waits: steps that need no worker.
//!
//! A waiting step is a job like any other, in RUNNING, but no worker can claim it. It ends by
//! itself when its moment comes, or by a signal. So views, cancels, events and results of steps
//! need no case of their own.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::QUEUE;
use crate::codec::{Corrupt, Fields, Writer, micros};
use crate::id::{ClientId, JobId};
use crate::job::{Head, Name};
use crate::limits;
use crate::record::{RecordKey, RecordKind, Stored};
use crate::time::Time;

/// What a step waits for. Set in the head of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// So long, from when the wait begins.
    For(Duration),
    Until(Time),
    Signal(SignalWait),
}

/// A wait for a signal, which ends it with the signal's body as its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalWait {
    /// Unique within the workflow.
    pub name: String,
    /// The step fails if no signal came for so long.
    pub timeout: Duration,
    /// JSON Schema of the signal's body; empty for any body.
    pub schema: Vec<u8>,
    /// The secret part of its [`SignalToken`].
    pub secret: u128,
}

impl Wait {
    pub const JOB_TYPE: &str = "forgerun.wait";

    /// The head of the job of a waiting step. It is counted in the queue of its workflow's own job.
    pub fn job(self, client: ClientId, created_at: Time) -> Head {
        Head {
            job_type: Wait::JOB_TYPE.into(),
            wait: Some(Box::new(self)),
            ..Head::new(client, Name::joined(QUEUE), created_at)
        }
    }

    pub fn signal(&self) -> Option<&SignalWait> {
        match self {
            Wait::Signal(signal) => Some(signal),
            Wait::For(_) | Wait::Until(_) => None,
        }
    }

    /// When it ends by itself, if it began at this moment.
    pub fn ends_at(&self, began_at: Time) -> Time {
        match self {
            Wait::For(span) => began_at + *span,
            Wait::Until(at) => *at,
            Wait::Signal(signal) => began_at + signal.timeout,
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Wait::For(span) => out.span(1, Some(*span)),
            Wait::Until(at) => out.time(2, Some(*at)),
            Wait::Signal(signal) => {
                out.text(3, Some(&signal.name));
                out.number(4, micros(signal.timeout));
                if !signal.schema.is_empty() {
                    out.bytes(5, &signal.schema);
                }
                out.bytes(6, &signal.secret.to_be_bytes());
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Wait, Corrupt> {
        let (mut span, mut until, mut name) = (None, None, None);
        let (mut timeout, mut schema, mut secret) = (Duration::ZERO, Vec::new(), 0);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => span = Some(field.span()?),
                2 => until = Some(field.time()?),
                3 => name = Some(field.text()?),
                4 => timeout = Duration::from_micros(field.number()?),
                5 => schema = field.bytes.to_vec(),
                6 => secret = field.id()?,
                _ => {}
            }
        }
        match (name, until, span) {
            (Some(name), ..) => Ok(Wait::Signal(SignalWait { name, timeout, schema, secret })),
            (None, Some(until), _) => Ok(Wait::Until(until)),
            (None, None, Some(span)) => Ok(Wait::For(span)),
            (None, None, None) => Err(Corrupt),
        }
    }
}

/// Whether a signal can have this name: 1 to [`limits::SIGNAL_NAME_BYTES_MAX`] of `a-z`, `0-9`,
/// `.`, `_` and `-`.
pub fn is_signal_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=limits::SIGNAL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// Proves that its bearer may send the signal of one wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignalToken {
    /// The job of the waiting step.
    pub job: JobId,
    secret: u128,
}

impl SignalToken {
    pub fn new(job: JobId, wait: &SignalWait) -> SignalToken {
        SignalToken { job, secret: wait.secret }
    }

    /// Whether it is the token of this wait.
    pub fn opens(&self, wait: &SignalWait) -> bool {
        self.secret == wait.secret
    }
}

impl fmt::Display for SignalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}{:032x}", self.job.as_u128(), self.secret)
    }
}

impl fmt::Debug for SignalToken {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignalToken({})", self.job)
    }
}

impl FromStr for SignalToken {
    type Err = Corrupt;

    fn from_str(text: &str) -> Result<SignalToken, Corrupt> {
        let is_hex = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex {
            return Err(Corrupt);
        }
        let (job, secret) = text.split_at(32);
        let number = |hex: &str| u128::from_str_radix(hex, 16).map_err(|_| Corrupt);
        Ok(SignalToken { job: JobId::from_u128(number(job)?), secret: number(secret)? })
    }
}

/// A signal that arrived: kept for a wait that has not begun, and to recognise a repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub workflow: JobId,
    pub name: String,
    /// The job of the wait that it ended; `None` if it came early.
    pub ended: Option<JobId>,
    /// SHA-256 of the body.
    pub digest: [u8; 32],
    /// The body; empty once it ended a wait, whose result it is.
    pub body: Vec<u8>,
    pub received_at: Time,
}

impl Signal {
    pub fn key_of(workflow: JobId, name: &str) -> RecordKey {
        Signal::record_key(format!("{workflow}/{name}"))
    }
}

impl Stored for Signal {
    const KIND: RecordKind = RecordKind::Signal;

    fn key(&self) -> String {
        Signal::key_of(self.workflow, &self.name).key
    }

    fn group(&self) -> String {
        self.workflow.to_string()
    }

    /// Never due: deleted with its workflow.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.body.len() + 64);
        let mut out = Writer(&mut bytes);
        if let Some(ended) = self.ended {
            out.bytes(1, &ended.to_bytes());
        }
        out.bytes(2, &self.digest);
        if !self.body.is_empty() {
            out.bytes(3, &self.body);
        }
        out.time(4, Some(self.received_at));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<Signal, Corrupt> {
        let (workflow, name) = key.split_once('/').ok_or(Corrupt)?;
        let workflow = workflow.parse().map_err(|_| Corrupt)?;
        let (mut ended, mut digest, mut body, mut received_at) = (None, [0; 32], Vec::new(), Time::ZERO);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => ended = Some(JobId::from_u128(field.id()?)),
                2 => digest = field.bytes.try_into().map_err(|_| Corrupt)?,
                3 => body = field.bytes.to_vec(),
                4 => received_at = field.time()?,
                _ => {}
            }
        }
        Ok(Signal { workflow, name: name.into(), ended, digest, body, received_at })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn wait_for_signal() -> SignalWait {
        SignalWait {
            name: "approved".into(),
            timeout: Duration::from_secs(60),
            schema: b"{}".to_vec(),
            secret: u128::MAX - 5,
        }
    }

    #[test]
    fn a_wait_is_read_back_as_it_was_written() {
        let plain = SignalWait { schema: Vec::new(), ..wait_for_signal() };
        for wait in [
            Wait::For(Duration::ZERO),
            Wait::For(Duration::from_secs(5)),
            Wait::Until(Time::from_millis(9)),
            Wait::Signal(wait_for_signal()),
            Wait::Signal(plain),
        ] {
            let mut bytes = Vec::new();
            wait.encode(&mut Writer(&mut bytes));
            assert_eq!(Wait::decode(&bytes), Ok(wait));
        }
        assert_eq!(Wait::decode(&[]), Err(Corrupt));
    }

    #[test]
    fn a_signal_is_read_back_as_it_was_written() {
        let early = Signal {
            workflow: JobId::from_u128(7),
            name: "a.b-c_1".into(),
            ended: None,
            digest: [3; 32],
            body: vec![1, 2],
            received_at: Time::from_millis(4),
        };
        let used = Signal { ended: Some(JobId::from_u128(9)), body: Vec::new(), ..early.clone() };
        for signal in [early, used] {
            assert_eq!(Signal::of(&signal.to_record(1)), Ok(signal));
        }
        assert_eq!(Signal::decode("x", &[]), Err(Corrupt));
    }

    #[test]
    fn a_token_is_read_back_and_opens_its_own_wait_only() {
        let wait = wait_for_signal();
        let token = SignalToken::new(JobId::from_u128(5), &wait);
        let read: SignalToken = token.to_string().parse().unwrap();
        assert_eq!(read, token);
        assert!(read.opens(&wait));
        assert!(!read.opens(&SignalWait { secret: 1, ..wait }));
        for bad in ["", "00", &token.to_string()[1..], &token.to_string().to_uppercase(), &"é".repeat(32)] {
            assert!(bad.parse::<SignalToken>().is_err(), "{bad}");
        }
        assert!(!format!("{token:?}").contains("ffff"), "no secret in a log line");
    }

    #[test]
    fn names_of_signals_are_short_and_plain() {
        for good in ["a", "order.approved", "x-1_2", &"a".repeat(64)] {
            assert!(is_signal_name(good), "{good}");
        }
        for bad in ["", "A", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert!(!is_signal_name(bad), "{bad}");
        }
    }
}
