//! Internal clients of the server: the same on every node and after every restart.
//!
//! Knowing the secret id of a client without a key suffices to create its first key. The ids here
//! are public, so keys for these clients need authentication.

use forgerun_core::id::ClientId;
use forgerun_core::redrive;

/// The client of requests without credentials, in open mode.
pub(crate) const DEFAULT_CLIENT: ClientId = ClientId::v4(0x64656661_756c_7400_0000_000000000000);

/// The client of jobs from a broker, unless another one is configured.
pub(crate) const BRIDGE_CLIENT: ClientId = ClientId::v4(0x616d7170_6272_4964_0000_000000000000);

/// Whether a client is internal.
pub(crate) fn is_own(client: ClientId) -> bool {
    [DEFAULT_CLIENT, BRIDGE_CLIENT, redrive::CLIENT].contains(&client)
}
