//! Ids and names on the wire. The database's `uuid` is sixteen bytes that sort as our ids do.

use std::error::Error;

use bytes::BytesMut;
use forgerun_core::id::{BlobId, ClientId, DeliveryId, ExecutionId, JobId, KeyId, SigningKeyId, WebhookId};
use forgerun_core::job::Name;
use forgerun_core::set_aside::RowId;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// An id of any kind, as the database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uuid([u8; 16]);

impl Uuid {
    /// Less than every id there is.
    pub(super) const MIN: Uuid = Uuid([0; 16]);
    /// Greater than every id there is.
    pub(super) const MAX: Uuid = Uuid([0xff; 16]);

    pub(super) const fn as_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl From<RowId> for Uuid {
    fn from(row: RowId) -> Uuid {
        Uuid(row.as_u128().to_be_bytes())
    }
}

/// Conversions for one kind of id.
macro_rules! ids {
    ($($id:ident),*) => {$(
        impl From<$id> for Uuid {
            fn from(id: $id) -> Uuid {
                Uuid(id.to_bytes())
            }
        }

        impl From<Uuid> for $id {
            fn from(uuid: Uuid) -> $id {
                $id::from_u128(u128::from_be_bytes(uuid.0))
            }
        }
    )*};
}

ids!(JobId, ExecutionId, ClientId, KeyId, WebhookId, DeliveryId, SigningKeyId, BlobId);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Uuid, Box<dyn Error + Sync + Send>> {
        Ok(Uuid(raw.try_into()?))
    }

    accepts!(UUID);
}

/// A name, as the database has it.
#[derive(Clone, Debug)]
pub(super) struct NameText(pub(super) Name);

impl ToSql for NameText {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_str().as_bytes());
        Ok(IsNull::No)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for NameText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<NameText, Box<dyn Error + Sync + Send>> {
        Ok(NameText(Name::joined(std::str::from_utf8(raw)?)))
    }

    accepts!(TEXT);
}
