//! Digests of what clients sent: of unique keys and of requests with an idempotency key. In the clear they would confirm a
//! guess. They are hidden by a permutation that only the key knows, so that equal ones stay equal and each can be had back.

use aws_lc_rs::hmac;

use super::keys::{KeyRing, random};

/// A secret of the store, the same for all its nodes. Rotation of the encryption keys does not change it.
pub(super) struct DigestKey {
    secret: [u8; 32],
    hmac: hmac::Key,
}

/// Rounds of a Feistel network: four make a strong permutation of a good pseudorandom function.
const ROUNDS: u8 = 4;

impl DigestKey {
    pub(super) fn new(secret: [u8; 32]) -> DigestKey {
        DigestKey { secret, hmac: hmac::Key::new(hmac::HMAC_SHA256, &secret) }
    }

    pub(super) fn random() -> DigestKey {
        DigestKey::new(random())
    }

    /// Stands in for the key of a store whose key cannot be opened: what it hid is not found again.
    pub(super) fn of_missing(ring: &KeyRing) -> DigestKey {
        DigestKey::new(ring.stand_in())
    }

    pub(super) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    pub(super) fn hide(&self, digest: &[u8; 32]) -> [u8; 32] {
        let (mut left, mut right) = halves(digest);
        for round in 0..ROUNDS {
            (left, right) = (right, xor(left, self.mix(round, &right)));
        }
        joined(left, right)
    }

    /// The inverse of [`Self::hide`].
    pub(super) fn reveal(&self, hidden: &[u8; 32]) -> [u8; 32] {
        let (mut left, mut right) = halves(hidden);
        for round in (0..ROUNDS).rev() {
            (left, right) = (xor(right, self.mix(round, &left)), left);
        }
        joined(left, right)
    }

    fn mix(&self, round: u8, half: &[u8; 16]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.hmac);
        context.update(&[round]);
        context.update(half);
        *context.sign().as_ref().first_chunk().expect("32 bytes")
    }
}

fn halves(digest: &[u8; 32]) -> ([u8; 16], [u8; 16]) {
    let (left, right) = digest.split_at(16);
    (left.try_into().expect("16 bytes"), right.try_into().expect("16 bytes"))
}

fn joined(left: [u8; 16], right: [u8; 16]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(&left);
    digest[16..].copy_from_slice(&right);
    digest
}

fn xor(mut one: [u8; 16], other: [u8; 16]) -> [u8; 16] {
    one.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_comes_back_and_another_key_hides_it_otherwise() {
        let (key, other) = (DigestKey::new([1; 32]), DigestKey::new([2; 32]));
        for n in 0..100u8 {
            let digest = [n; 32];
            let hidden = key.hide(&digest);
            assert_ne!(hidden, digest);
            assert_eq!(key.reveal(&hidden), digest);
            assert_eq!(hidden, key.hide(&digest), "equal digests stay equal");
            assert_ne!(hidden, other.hide(&digest));
        }
    }
}
