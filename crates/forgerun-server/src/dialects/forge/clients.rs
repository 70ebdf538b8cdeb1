//! Registering and naming clients.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::client::{Client, ClientName};
use forgerun_core::id::ClientId;
use forgerun_core::scope::KeyScope;
use forgerun_core::{Command, Refusal};
use forgerun_wire::body::{refused, violation};
use forgerun_wire::forge::{ClientDetailView, ClientView};
use forgerun_wire::{request_body, time};

use super::keys;
use crate::app::App;
use crate::auth::{Who, caller as auth};
use crate::client_limits;
use crate::http::{
    ApiError, Exchange, body, respond,
    routing::{Call, Callers, Reply, Route, RouteAccess, operation::TRACING},
};

pub(super) const ROUTES: &[Route] = &[
    Route::post("/v1/clients", "register", |call| Box::pin(create(call)))
        .access(RouteAccess::Own(|app, exchange| Box::pin(gate(app, exchange)), Callers::AnyoneOrOperator))
        .operation("createClient", "Register a client.")
        .headers(TRACING)
        .optional_body(&CLIENT_NAME)
        .replies(&[Reply::json::<ClientView>(201, "Registered.")])
        .refuses(&[Kind::Forbidden, Kind::ConfigInvalid]),
    Route::get("/v1/clients/{client_id}", "get_client", |call| Box::pin(get(call)))
        .access(keys::KNOWN)
        .operation("getClient", "Get a client with its limits and what it uses of them.")
        .replies(&[Reply::json::<ClientDetailView>(200, "The client.")]),
    Route::patch("/v1/clients/{client_id}", "name_client", |call| Box::pin(rename(call)))
        .access(keys::KNOWN)
        .scope(KeyScope::Manage)
        .operation("nameClient", "Name a client: yourself, or any client with the operator's token.")
        .body(&CLIENT_NAME)
        .replies(&[Reply::json::<ClientView>(200, "Named.")]),
];

request_body! {
    /// What people call a client.
    CLIENT_NAME = "ClientRequest" {
        /// 1 to 100 printable characters, without space around them; null for none.
        "name": maybe(name(100)),
    }
    ; examples {"named": {"value": {"name": "Billing"}}, "unnamed": {"value": {"name": null}}}
}

/// Who may register (rulings C-62, C-115): any caller, any caller on this machine, or a caller with
/// the admin token; and how often (C-93).
async fn gate(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = match auth::registers_anybody(app, exchange) {
        // Credentials are ignored where none are needed, even bad ones.
        Ok(true) => Who::Anonymous,
        Ok(false) if !auth::knows_operator(app) => {
            let detail =
                "Registering needs the admin token, and the server has none: auth.admin_token is not set.";
            return Err(ApiError::new(Kind::ConfigInvalid, detail));
        }
        Err(why) if !auth::knows_operator(app) => {
            let detail =
                format!("Clients are registered only from the server's own machine; refused because {why}.");
            return Err(ApiError::new(Kind::Forbidden, detail));
        }
        Ok(false) | Err(_) => match auth::identify_operator(app, exchange).await? {
            who @ Who::Operator(_) => who,
            Who::Anonymous => {
                let detail = "Registering needs the admin token; send `Authorization: Bearer <admin_token>`.";
                return Err(auth::unauthenticated(detail));
            }
            Who::Client(_) => {
                return Err(ApiError::new(Kind::Forbidden, "Registering needs the admin token."));
            }
        },
    };
    app.limiter.registration(exchange.address, exchange.began)?;
    Ok(who)
}

/// `POST /v1/clients`. An `Idempotency-Key` is ignored: the answer is a capability, and repeating
/// it to a caller that knows the key would leak it.
async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let name = name(&call)?.flatten();
    let client = Client::new(app.engine.client_id(), app.clock.now());
    app.engine.run(Command::Register(client)).await?;
    if name.is_some() {
        set_name(app, client.id, name.clone()).await?;
    }
    Ok(respond::json(StatusCode::CREATED, &ClientView { client_id: client.id.to_string(), name }))
}

/// `GET /v1/clients/{client_id}`: by the client itself, or by the operator.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let id = keys::owned(&call).await?;
    let store = call.app.engine.store();
    let not_found = || forgerun_engine::Error::Refused(Refusal::ClientNotFound);
    let client = store.client(id).await?.ok_or_else(not_found)?;
    let named: Option<ClientName> = store.record(id.to_string()).await?;
    let (limits, usage) = client_limits::shown(call.app, id).await?;
    let view = ClientDetailView {
        client: ClientView { client_id: id.to_string(), name: named.and_then(|named| named.name) },
        created_at: time::millis(client.created_at),
        limits,
        usage,
    };
    Ok(respond::json(StatusCode::OK, &view))
}

/// `PATCH /v1/clients/{client_id}`: by the client itself, or by the operator. `null` removes the
/// name.
async fn rename(call: Call<'_>) -> Result<Response, ApiError> {
    let name = name(&call)?.ok_or_else(|| {
        let missing = violation("name", "is required", "required");
        refused(Kind::MalformedRequest, vec![missing], &["name"])
    })?;
    let client = keys::owned(&call).await?;
    set_name(call.app, client, name.clone()).await?;
    Ok(respond::json(StatusCode::OK, &ClientView { client_id: client.to_string(), name }))
}

async fn set_name(app: &App, client: ClientId, name: Option<String>) -> Result<(), ApiError> {
    app.engine.run(Command::NameClient(ClientName { client, name: name.clone() })).await?;
    app.client_names.put(client, name, app.clock.now());
    Ok(())
}

/// The name in the body: `None` if it is missing, `Some(None)` if it is null.
fn name(call: &Call<'_>) -> Result<Option<Option<String>>, ApiError> {
    body::expect_object(&call.body)?;
    let has_name = !call.body.is_empty() && forgerun_wire::body::object(&call.body)?.contains_key("name");
    let Some(text) = body::member::<String>(&call.body, "name", "a string")? else {
        return Ok(has_name.then_some(None));
    };
    match ClientName::parse(&text) {
        Some(name) => Ok(Some(Some(name))),
        None => {
            let wrong = violation("name", ClientName::RULE, "length");
            Err(refused(Kind::MalformedRequest, vec![wrong], &["name"]).into())
        }
    }
}
