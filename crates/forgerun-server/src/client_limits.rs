//! Limits of clients: read, shown, and changed by the operator.

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::client_limits::{ClientLimit, ClientLimits};
use forgerun_core::id::ClientId;
use forgerun_wire::admin::{ClientLimitsView, ClientUsageView};
use forgerun_wire::body::{refused, violation};
use serde_json::{Map, Value};

use crate::app::App;
use crate::http::ApiError;
use crate::limits::CLIENT_RATE_MAX;

/// The limits of a client, and what it uses.
pub(crate) async fn shown(
    app: &App,
    client: ClientId,
) -> Result<(ClientLimitsView, ClientUsageView), ApiError> {
    let limits = of(app, client).await?;
    let usage = app.engine.store().client_usage(client).await?;
    Ok(((&limits).into(), usage.into()))
}

async fn of(app: &App, client: ClientId) -> Result<ClientLimits, ApiError> {
    let limits: Option<ClientLimits> = app.engine.store().record(client.to_string()).await?;
    Ok(limits.unwrap_or(ClientLimits::none(client)))
}

/// Sets the limits that the members name; null lifts one, others stay.
pub(crate) async fn change(
    app: &App,
    client: ClientId,
    members: &Map<String, Value>,
) -> Result<ClientLimits, ApiError> {
    let mut limits = of(app, client).await?;
    for limit in ClientLimit::ALL {
        if let Some(value) = members.get(limit.word()) {
            limits.set(limit, read(limit, value)?);
        }
    }
    app.engine.run(Command::LimitClient(limits)).await?;
    // Its rate is cached with its keys.
    app.keys_changed(client);
    Ok(limits)
}

fn read(limit: ClientLimit, value: &Value) -> Result<Option<u64>, ApiError> {
    let (min, max) = match limit {
        ClientLimit::RatePerMinute => (1, CLIENT_RATE_MAX),
        _ => (0, i64::MAX.cast_unsigned()),
    };
    if value.is_null() {
        return Ok(None);
    }
    let number = value.as_u64().filter(|number| (min..=max).contains(number));
    number.map(Some).ok_or_else(|| {
        let detail = format!("must be a whole number from {min} to {max}, or null for no limit");
        let wrong = violation(limit.word(), &detail, "range");
        refused(Kind::MalformedRequest, vec![wrong], &[limit.word()]).into()
    })
}
