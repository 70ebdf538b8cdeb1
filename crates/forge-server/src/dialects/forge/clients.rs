//! Registering clients.

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::Command;
use forge_core::catalog::Kind;
use forge_core::client::Client;
use forge_wire::forge::ClientView;

use crate::app::App;
use crate::edge::routing::{Call, Route, RouteAccess};
use crate::edge::{ApiError, Exchange, Who, auth, body, respond};

/// The route.
pub(super) const ROUTES: &[Route] = &[Route::post("/v1/clients", "register", |call| Box::pin(create(call)))
    .access(RouteAccess::Own(|app, exchange| Box::pin(gate(app, exchange))))];

/// Who may register (rulings C-62, C-115): anybody, anybody on this machine, or whoever has the admin token; and how often (C-93).
async fn gate(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = match auth::registers_anybody(app, exchange) {
        // Credentials do not matter where nobody needs them; not even bad ones.
        Ok(true) => Who::Nobody,
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
            Who::Operator => Who::Operator,
            Who::Nobody => {
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

/// `POST /v1/clients`. An `Idempotency-Key` is welcome and changes nothing: the answer is a capability, and answering it
/// twice to whoever knows a key would give it away.
async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    body::expect_object(&call.body)?;
    let client = Client::new(app.engine.client_id(), app.clock.now());
    app.engine.run(Command::Register(client)).await?;
    Ok(respond::json(StatusCode::CREATED, &ClientView { client_id: client.id.to_string() }))
}
