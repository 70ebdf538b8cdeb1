//! Scopes: what a key may be used for.

/// A permission of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyScope {
    /// Submit, cancel, retry and delete jobs and workflows.
    Submit,
    /// Read.
    Read,
    /// Claim jobs, and report about them.
    Work,
    /// Queues, schedules, webhooks and schemas.
    Manage,
    /// Keys of the client.
    Keys,
}

impl KeyScope {
    pub const ALL: [KeyScope; 5] =
        [KeyScope::Submit, KeyScope::Read, KeyScope::Work, KeyScope::Manage, KeyScope::Keys];

    /// The name in APIs.
    pub const fn word(self) -> &'static str {
        match self {
            KeyScope::Submit => "submit",
            KeyScope::Read => "read",
            KeyScope::Work => "work",
            KeyScope::Manage => "manage",
            KeyScope::Keys => "keys",
        }
    }

    pub fn parse(word: &str) -> Option<KeyScope> {
        KeyScope::ALL.into_iter().find(|scope| scope.word() == word)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyScopes(u8);

impl KeyScopes {
    pub const NONE: KeyScopes = KeyScopes(0);
    pub const ALL: KeyScopes = KeyScopes((1 << KeyScope::ALL.len()) - 1);

    #[must_use]
    pub const fn with(self, scope: KeyScope) -> KeyScopes {
        KeyScopes(self.0 | 1 << scope as u8)
    }

    pub const fn contains(self, scope: KeyScope) -> bool {
        self.0 & 1 << scope as u8 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes of `self` that `others` lacks.
    pub const fn without(self, others: KeyScopes) -> KeyScopes {
        KeyScopes(self.0 & !others.0)
    }

    pub fn iter(self) -> impl Iterator<Item = KeyScope> {
        KeyScope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// As stored: `None` for all, including scopes that a later version adds.
    pub fn to_bits(self) -> Option<u8> {
        (self != KeyScopes::ALL).then_some(self.0)
    }

    /// The inverse of [`Self::to_bits`]. KeyScopes that this version does not know are dropped.
    pub const fn from_bits(bits: Option<u8>) -> KeyScopes {
        match bits {
            None => KeyScopes::ALL,
            Some(bits) => KeyScopes(bits & KeyScopes::ALL.0),
        }
    }
}

impl FromIterator<KeyScope> for KeyScopes {
    fn from_iter<T: IntoIterator<Item = KeyScope>>(scopes: T) -> KeyScopes {
        scopes.into_iter().fold(KeyScopes::NONE, KeyScopes::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let some = KeyScopes::NONE.with(KeyScope::Submit).with(KeyScope::Keys);
        assert!(some.contains(KeyScope::Keys) && !some.contains(KeyScope::Read));
        assert_eq!(some.iter().collect::<KeyScopes>(), some);
        assert_eq!(
            KeyScopes::ALL.without(some).iter().map(KeyScope::word).collect::<alloc::vec::Vec<_>>(),
            ["read", "work", "manage"]
        );
        assert!(some.without(KeyScopes::ALL).is_empty());
    }

    #[test]
    fn a_set_is_read_back_as_it_was_stored() {
        for scopes in [KeyScopes::NONE, KeyScopes::NONE.with(KeyScope::Keys), KeyScopes::ALL] {
            assert_eq!(KeyScopes::from_bits(scopes.to_bits()), scopes);
        }
        assert_eq!(KeyScopes::ALL.to_bits(), None, "keys from before have all");
        assert_eq!(
            KeyScopes::from_bits(Some(0x82)),
            KeyScopes::NONE.with(KeyScope::Read),
            "an unknown scope"
        );
    }

    #[test]
    fn a_scope_is_found_by_its_word() {
        for scope in KeyScope::ALL {
            assert_eq!(KeyScope::parse(scope.word()), Some(scope));
        }
        assert_eq!(KeyScope::parse("Submit"), None);
    }
}
