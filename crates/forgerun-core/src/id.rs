//! Typed UUIDs that cannot be mixed up.
//!
//! Jobs, executions and events have version 7 ids: they sort by creation time, which the claim
//! order relies on. Clients have version 4 ids, because a client id doubles as a capability until
//! its first key exists. The random part is an argument: this crate generates no randomness.

use core::fmt;
use core::str::FromStr;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits)
            }

            pub const fn as_u128(self) -> u128 {
                self.0
            }

            /// As stored: sixteen bytes, big-endian, so that bytes sort like ids.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Decodes the bytes of [`Self::to_bytes`].
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse_uuid(text).map(Self)
            }
        }
    };
}

id! {
    /// A job: what a client submitted and may cancel or retry.
    JobId
}
id! {
    /// One execution of a job. The first one has the id of its job; a manual retry opens another.
    ExecutionId
}
id! {
    ClientId
}
id! {
    /// An event of a job or webhook.
    EventId
}
id! {
    /// Identifies an API key; not its secret.
    KeyId
}
id! {
    /// Bytes that a store keeps beside its rows.
    BlobId
}

impl BlobId {
    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }
}

id! {
    WebhookId
}
id! {
    /// One delivery to an endpoint; the same with every attempt.
    DeliveryId
}
id! {
    /// A key that this server signs with.
    SigningKeyId
}

impl WebhookId {
    /// Stands for the callback of a job, which has no id, among endpoints.
    pub const CALLBACK: WebhookId = WebhookId::from_u128(0);

    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }
}

impl SigningKeyId {
    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }
}

impl DeliveryId {
    /// The id of the delivery of event `n` to an endpoint. Derived: deliveries of one event differ
    /// by endpoint, and events of one job by number. The number precedes the other bits, so that
    /// the deliveries of one transaction sort in the order of their events. A delivery about no
    /// event uses `bits`.
    pub const fn of(unix_ms: u64, n: u32, bits: u64, endpoint: WebhookId) -> Self {
        const LOW_62: u128 = (1 << 62) - 1;
        // Spread, because ids made at the same time differ in a few bits only.
        let endpoint = (endpoint.0 as u64 ^ (endpoint.0 >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = bits ^ endpoint ^ (endpoint >> 32);
        Self(v7(unix_ms, ((n as u128 & 0xfff) << 62) | (bits as u128 & LOW_62)))
    }
}

impl KeyId {
    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }
}

impl ClientId {
    /// A version 4 id with 122 of the random bits.
    pub const fn v4(random: u128) -> Self {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        Self(random & !VERSION & !VARIANT | 0x4 << 76 | 0b10 << 62)
    }
}

impl JobId {
    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }

    /// The first execution of a job has the job's id.
    pub const fn first_execution(self) -> ExecutionId {
        ExecutionId(self.0)
    }
}

impl ExecutionId {
    /// A version 7 id of this time, with 74 of the random bits.
    pub const fn v7(unix_ms: u64, random: u128) -> Self {
        Self(v7(unix_ms, random))
    }
}

impl EventId {
    /// The id of event `n` of `job`: derived, not stored. The twelve bits behind the time hold `n`,
    /// the last 62 are the job's, so events of one job differ by number, and jobs by their random
    /// bits.
    pub const fn of(job: JobId, n: u32, unix_ms: u64) -> Self {
        const LAST_62: u128 = (1 << 62) - 1;
        Self(v7(unix_ms, ((n as u128 & 0xfff) << 62) | (job.0 & LAST_62)))
    }

    /// The id of event `n` of a webhook, derived like that of a job.
    pub const fn of_webhook(webhook: WebhookId, n: u32, unix_ms: u64) -> Self {
        Self::of(JobId(webhook.0), n, unix_ms)
    }

    /// Its time, in milliseconds since the epoch.
    pub const fn unix_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }

    /// The twelve lowest bits of its number.
    pub const fn n_low(self) -> u16 {
        ((self.0 >> 64) & 0xfff) as u16
    }

    /// Whether all bits but time and number are those of `job`.
    pub const fn is_of(self, job: JobId) -> bool {
        self.0 == Self::of(job, self.n_low() as u32, self.unix_ms()).0
    }

    /// Whether the fixed bits are those of an event id.
    pub const fn is_well_formed(self) -> bool {
        self.is_of(JobId(self.0))
    }
}

/// Text that is not a lower- or upper-case hyphenated UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a hyphenated UUID")
    }
}

impl core::error::Error for NotAnId {}

const fn v7(unix_ms: u64, random: u128) -> u128 {
    const LOW_62: u128 = (1 << 62) - 1;
    let time = ((unix_ms & 0xffff_ffff_ffff) as u128) << 80;
    let rand_a = ((random >> 62) & 0xfff) << 64;
    time | (0x7 << 76) | rand_a | (0b10 << 62) | (random & LOW_62)
}

/// Offsets of the bytes in the text of an id.
const BYTE_PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const HYPHEN_PLACES: [usize; 4] = [8, 13, 18, 23];

/// Values of hexadecimal digits; all bits set for other characters.
const DIGITS: [u8; 256] = {
    let mut digits = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The 32 digits of an id, without hyphens: the text of `{:032x}`, in a fraction of the time.
pub(crate) fn digits(bits: u128) -> [u8; 32] {
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bits.to_be_bytes()) {
        *pair = [byte >> 4, byte & 0xf].map(|digit| HEX[usize::from(digit)]);
    }
    text
}

fn write_uuid(bits: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [b'-'; 36];
    // Byte by byte: shifting 128 bits for every digit takes several times as long.
    for (byte, at) in bits.to_be_bytes().into_iter().zip(BYTE_PLACES) {
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 0xf)];
    }
    f.write_str(core::str::from_utf8(&text).expect("hex digits and hyphens are ASCII"))
}

fn parse_uuid(text: &str) -> Result<u128, NotAnId> {
    let text: &[u8; 36] = text.as_bytes().try_into().map_err(|_| NotAnId)?;
    let mut bytes = [0; 16];
    let mut odd = HYPHEN_PLACES.iter().fold(0, |odd, at| odd | (text[*at] ^ b'-'));
    for (byte, at) in bytes.iter_mut().zip(BYTE_PLACES) {
        let (high, low) = (DIGITS[usize::from(text[at])], DIGITS[usize::from(text[at + 1])]);
        *byte = (high << 4) | (low & 0xf);
        // Other characters have bits that no digit has.
        odd |= (high | low) & 0xf0;
    }
    if odd == 0 { Ok(u128::from_be_bytes(bytes)) } else { Err(NotAnId) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn an_id_is_written_in_lower_case_and_read_back() {
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        let id: JobId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(text.to_uppercase().parse::<JobId>(), Ok(id));
        assert_eq!(JobId::from_bytes(&id.to_bytes()), Some(id));
    }

    #[test]
    fn text_that_is_no_uuid_is_refused() {
        for text in
            ["", "01890a5d", "01890a5d-ac96-774b-bcce-b302099a805g", "01890a5dxac96-774b-bcce-b302099a8057"]
        {
            assert_eq!(text.parse::<JobId>(), Err(NotAnId), "{text}");
        }
        let good = "01890a5d-ac96-774b-bcce-b302099a8057";
        for (at, byte) in (0..good.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut bytes = good.as_bytes().to_vec();
            bytes[at] = byte;
            let Ok(text) = std::str::from_utf8(&bytes) else { continue };
            let fits = if HYPHEN_PLACES.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
            assert_eq!(text.parse::<JobId>().is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn version_7_ids_carry_version_variant_and_sort_by_time() {
        let early = JobId::v7(1, u128::MAX);
        let late = JobId::v7(2, 0);
        assert!(early < late);
        for id in [early, late] {
            let text = id.to_string();
            assert_eq!(&text[14..15], "7");
            assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        }
    }

    #[test]
    fn version_4_ids_carry_version_and_variant() {
        for random in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let text = ClientId::v4(random).to_string();
            assert_eq!(&text[14..15], "4");
            assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        }
    }

    #[test]
    fn event_ids_differ_by_number_and_by_job() {
        let (a, b) = (JobId::v7(1, 1), JobId::v7(1, 2));
        assert_ne!(EventId::of(a, 1, 5), EventId::of(a, 2, 5));
        assert_ne!(EventId::of(a, 1, 5), EventId::of(b, 1, 5));
    }

    #[test]
    fn an_event_id_tells_its_moment_its_number_and_its_job() {
        let (job, other) = (JobId::v7(1, 1), JobId::v7(1, 2));
        let id = EventId::of(job, 4097, 1_780_000_000_123);
        assert_eq!((id.unix_ms(), id.n_low()), (1_780_000_000_123, 1));
        assert!(id.is_well_formed() && id.is_of(job) && !id.is_of(other));
        let v4: EventId = "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10".parse().unwrap();
        assert!(!v4.is_well_formed());
    }
}
