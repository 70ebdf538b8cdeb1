//! Keys, and the form of sealed bytes:
//!
//! ```text
//!   10 × 0xFF │ length of the key id │ key id │ salt (16) │ nonce (12) │ AES-256-GCM, with its tag (16)
//! ```
//!
//! The beginning is no UTF-8, and no row that the core encodes: a row that stays sealed is malformed, never something else.
//! The salt chooses a key of the row, derived from the configured one, so that no key seals more rows than a random nonce
//! is good for. The beginning, and whose content it is, are authenticated.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};

use crate::{Error, Fault};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Bytes of the id of a key.
const KEY_ID_BYTES_MAX: usize = 32;

const MARK: [u8; 10] = [0xff; 10];
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Rows sealed with one salt: far below the 2^32 that random nonces allow.
const ROWS_PER_SALT: u32 = 1 << 30;

/// Derived keys kept for reading. Each start of a server makes one, and each large result.
const DERIVED_MAX: usize = 256;

/// What a sealed content is of. Numbers are in the authenticated data: never reuse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Subject {
    Input = 1,
    JobText = 2,
    Outcome = 3,
    Result = 4,
    Items = 5,
    Record = 6,
    WebhookSecret = 7,
    Delivery = 8,
    Log = 9,
    SigningSeed = 10,
    Blob = 11,
}

/// Keys that open what is sealed. The first one seals.
pub struct KeyRing {
    keys: Vec<(String, hmac::Key)>,
    sealing: RwLock<Option<Arc<SealingKey>>>,
    derived: RwLock<DerivedKeys>,
}

/// By the place of the key in the ring, and the salt.
type DerivedKeys = HashMap<(usize, [u8; SALT_BYTES]), Arc<LessSafeKey>>;

/// A derived key that seals rows.
struct SealingKey {
    /// The sealed form up to the nonce.
    head: Vec<u8>,
    key: Arc<LessSafeKey>,
    n_rows: AtomicU32,
}

/// The beginning of a sealed form.
struct SealHead<'a> {
    key_id: &'a str,
    salt: [u8; SALT_BYTES],
    /// Bytes up to the nonce.
    len: usize,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl KeyRing {
    /// Keys with their ids, the one that seals first. Without keys nothing is sealed or opened.
    pub fn new(keys: Vec<(String, [u8; KEY_BYTES])>) -> KeyRing {
        let keys = keys.into_iter().map(|(id, key)| (id, hmac::Key::new(hmac::HMAC_SHA256, &key))).collect();
        KeyRing { keys, sealing: RwLock::default(), derived: RwLock::default() }
    }

    /// Whether a text is fit to be the id of a key.
    pub fn is_key_id(text: &str) -> bool {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.chars().all(is_fine)
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(id, _)| id.as_str())
    }

    /// Whether it can seal.
    pub fn seals(&self) -> bool {
        !self.keys.is_empty()
    }

    /// A secret that follows from the first key, the same on all nodes.
    pub(super) fn stand_in(&self) -> [u8; 32] {
        let Some((_, key)) = self.keys.first() else { return random() };
        *hmac::sign(key, b"forgerun digests 1").as_ref().first_chunk().expect("32 bytes")
    }

    /// The sealed form of `clear`, which belongs to `row`.
    pub(crate) fn seal(&self, subject: Subject, row: &[u8], clear: &[u8]) -> Vec<u8> {
        let sealing = self.sealing_key();
        let mut out = Vec::with_capacity(sealing.head.len() + NONCE_BYTES + clear.len() + TAG_BYTES);
        out.extend_from_slice(&sealing.head);
        let nonce: [u8; NONCE_BYTES] = random();
        let aad = aad(&out, subject, row);
        out.extend_from_slice(&nonce);
        append_sealed(&sealing.key, nonce, aad, clear, &mut out);
        out
    }

    /// What is sealed; `None` if these bytes are not. A content that no key opens is [`Fault::Sealed`].
    pub(crate) fn open(&self, subject: Subject, row: &[u8], bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(head) = SealHead::read(bytes) else { return Ok(None) };
        let key = self.derived(&head)?;
        let aad = aad(&bytes[..head.len], subject, row);
        let rest = &bytes[head.len..];
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(|| head.broken())?;
        let mut clear = rest.to_vec();
        let n = key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(&aad[..]), &mut clear)
            .map_err(|_| head.broken())?
            .len();
        clear.truncate(n);
        Ok(Some(clear))
    }

    /// Whether the bytes are sealed.
    pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
        SealHead::read(bytes).is_some()
    }

    /// Whether the bytes are sealed with the key that seals now.
    pub(crate) fn is_current(&self, bytes: &[u8]) -> bool {
        SealHead::read(bytes).is_some_and(|head| self.ids().next() == Some(head.key_id))
    }

    fn sealing_key(&self) -> Arc<SealingKey> {
        let current = self.sealing.read().unwrap_or_else(PoisonError::into_inner).clone();
        match current.filter(|key| key.n_rows.fetch_add(1, Ordering::Relaxed) < ROWS_PER_SALT) {
            Some(key) => key,
            None => {
                let (head, key) = self.fresh();
                let fresh = Arc::new(SealingKey { head, key, n_rows: AtomicU32::new(1) });
                *self.sealing.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
                fresh
            }
        }
    }

    /// A new derived key, and the beginning of what it seals.
    fn fresh(&self) -> (Vec<u8>, Arc<LessSafeKey>) {
        let (id, key) = self.keys.first().expect("only a ring with keys seals");
        let salt: [u8; SALT_BYTES] = random();
        let mut head = Vec::with_capacity(MARK.len() + 1 + id.len() + SALT_BYTES);
        head.extend_from_slice(&MARK);
        head.push(id.len() as u8);
        head.extend_from_slice(id.as_bytes());
        head.extend_from_slice(&salt);
        (head, Arc::new(derive(key, &salt)))
    }

    fn derived(&self, head: &SealHead<'_>) -> Result<Arc<LessSafeKey>, Error> {
        let at = self.keys.iter().position(|(id, _)| id == head.key_id).ok_or_else(|| {
            let text = format!("encrypted with key {:?}, which encryption.keys does not list", head.key_id);
            Error::new(Fault::Sealed, text)
        })?;
        let place = (at, head.salt);
        if let Some(key) = self.derived.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(key.clone());
        }
        let key = Arc::new(derive(&self.keys[at].1, &head.salt));
        let mut derived = self.derived.write().unwrap_or_else(PoisonError::into_inner);
        if derived.len() >= DERIVED_MAX {
            derived.clear();
        }
        derived.insert(place, key.clone());
        Ok(key)
    }
}

impl<'a> SealHead<'a> {
    /// `None` unless the bytes begin like a sealed form.
    fn read(bytes: &'a [u8]) -> Option<SealHead<'a>> {
        let rest = bytes.strip_prefix(&MARK)?;
        let (&id_len, rest) = rest.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(id_len))?;
        let key_id = std::str::from_utf8(id).ok().filter(|id| KeyRing::is_key_id(id))?;
        let salt = *rest.first_chunk::<SALT_BYTES>()?;
        Some(SealHead { key_id, salt, len: MARK.len() + 1 + id.len() + SALT_BYTES })
    }

    fn broken(&self) -> Error {
        let text =
            format!("does not match key {:?}: another key has this id, or the row was changed", self.key_id);
        Error::new(Fault::Sealed, text)
    }
}

/// Bytes of the beginning of a sealed blob, at most.
const BLOB_HEAD_MAX: usize = MARK.len() + 1 + KEY_ID_BYTES_MAX + SALT_BYTES;

/// Seals and opens the chunks of one blob. Its key is its own, so chunks are told apart by their number.
pub(crate) struct ChunkKey {
    key: Arc<LessSafeKey>,
    head: Vec<u8>,
    row: [u8; 16],
}

impl ChunkKey {
    /// What a sealed chunk is longer than a clear one.
    pub(crate) const OVERHEAD: usize = TAG_BYTES;

    /// Bytes to read from the beginning of a blob for [`Self::open`].
    pub(crate) const PEEK: usize = BLOB_HEAD_MAX;

    /// For a new blob.
    pub(crate) fn new(ring: &KeyRing, row: [u8; 16]) -> ChunkKey {
        let (head, key) = ring.fresh();
        ChunkKey { key, head, row }
    }

    /// For a blob that begins with these bytes; `None` if it is not sealed.
    pub(crate) fn open(ring: &KeyRing, row: [u8; 16], bytes: &[u8]) -> Result<Option<ChunkKey>, Error> {
        let Some(head) = SealHead::read(bytes) else { return Ok(None) };
        let key = ring.derived(&head)?;
        Ok(Some(ChunkKey { key, head: bytes[..head.len].to_vec(), row }))
    }

    /// The beginning of the blob.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn seal_chunk(&self, n: u64, clear: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(clear.len() + TAG_BYTES);
        append_sealed(&self.key, chunk_nonce(n), aad(&self.head, Subject::Blob, &self.row), clear, &mut out);
        out
    }

    pub(crate) fn open_chunk(&self, n: u64, mut sealed: Vec<u8>) -> Result<Vec<u8>, Error> {
        let aad = aad(&self.head, Subject::Blob, &self.row);
        let nonce = Nonce::assume_unique_for_key(chunk_nonce(n));
        let len = self
            .key
            .open_in_place(nonce, Aad::from(&aad[..]), &mut sealed)
            .map_err(|_| SealHead::read(&self.head).expect("it was read before").broken())?
            .len();
        sealed.truncate(len);
        Ok(sealed)
    }
}

fn chunk_nonce(n: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[NONCE_BYTES - 8..].copy_from_slice(&n.to_be_bytes());
    nonce
}

fn append_sealed(key: &LessSafeKey, nonce: [u8; NONCE_BYTES], aad: Vec<u8>, clear: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(clear);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(&aad[..]), &mut out[from..]);
    out.extend_from_slice(sealed.expect("contents are far shorter than AES-GCM allows").as_ref());
}

fn aad(head: &[u8], subject: Subject, row: &[u8]) -> Vec<u8> {
    let mut aad = Vec::with_capacity(head.len() + 1 + row.len());
    aad.extend_from_slice(head);
    aad.push(subject as u8);
    aad.extend_from_slice(row);
    aad
}

fn derive(key: &hmac::Key, salt: &[u8; SALT_BYTES]) -> LessSafeKey {
    let mut context = hmac::Context::with_key(key);
    context.update(b"forgerun contents 1");
    context.update(salt);
    let unbound = UnboundKey::new(&AES_256_GCM, context.sign().as_ref());
    LessSafeKey::new(unbound.expect("HMAC-SHA-256 gives as many bytes as AES-256 needs"))
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[(&str, u8)]) -> KeyRing {
        KeyRing::new(keys.iter().map(|(id, byte)| (String::from(*id), [*byte; KEY_BYTES])).collect())
    }

    fn fault(ring: &KeyRing, subject: Subject, row: &[u8], bytes: &[u8]) -> Fault {
        ring.open(subject, row, bytes).expect_err("it must not open").fault
    }

    #[test]
    fn a_content_is_opened_by_its_key_wherever_that_stands_in_the_list() {
        let old = ring(&[("a", 1)]);
        let sealed = old.seal(Subject::Input, b"job", b"secret");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        let rotated = ring(&[("b", 2), ("a", 1)]);
        assert_eq!(rotated.open(Subject::Input, b"job", &sealed).unwrap().unwrap(), b"secret");
        assert_eq!((old.is_current(&sealed), rotated.is_current(&sealed)), (true, false));
        assert_ne!(sealed, old.seal(Subject::Input, b"job", b"secret"), "each row has a nonce of its own");
    }

    #[test]
    fn nothing_else_opens_it() {
        let keys = ring(&[("a", 1)]);
        let sealed = keys.seal(Subject::Input, b"job", b"secret");
        assert_eq!(fault(&ring(&[("b", 1)]), Subject::Input, b"job", &sealed), Fault::Sealed);
        assert_eq!(fault(&ring(&[("a", 2)]), Subject::Input, b"job", &sealed), Fault::Sealed);
        assert_eq!(fault(&ring(&[]), Subject::Input, b"job", &sealed), Fault::Sealed);
        assert_eq!(fault(&keys, Subject::Input, b"other job", &sealed), Fault::Sealed);
        assert_eq!(fault(&keys, Subject::Result, b"job", &sealed), Fault::Sealed);
        for at in 12..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(fault(&keys, Subject::Input, b"job", &changed), Fault::Sealed, "byte {at}");
        }
        assert_eq!(fault(&keys, Subject::Input, b"job", &sealed[..40]), Fault::Sealed);
    }

    #[test]
    fn what_was_never_sealed_is_left_as_it_is() {
        for clear in [&b""[..], b"{}", &[0xff; 10], &[0xff; 60]] {
            assert!(ring(&[("a", 1)]).open(Subject::Result, b"", clear).unwrap().is_none());
        }
    }
}
