//! Clients of the server itself: the same on every node and after every restart.
//!
//! A client without a key gets its first one by its id alone, which nobody else can know. These ids
//! stand here for everybody to read, so whoever wants a key for such a client must be known.

use forgerun_core::id::ClientId;
use forgerun_core::redrive;

/// Whose requests without credentials are, in open mode.
pub(crate) const DEFAULT_CLIENT: ClientId = ClientId::v4(0x64656661_756c_7400_0000_000000000000);

/// Whose jobs from a broker are, unless the configuration names another client.
pub(crate) const BRIDGE_CLIENT: ClientId = ClientId::v4(0x616d7170_6272_4964_0000_000000000000);

/// Whether a client is the server's own.
pub(crate) fn is_own(client: ClientId) -> bool {
    [DEFAULT_CLIENT, BRIDGE_CLIENT, redrive::CLIENT].contains(&client)
}
