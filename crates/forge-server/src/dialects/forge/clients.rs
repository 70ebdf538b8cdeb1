//! Registering clients.

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::Command;
use forge_core::catalog::Kind;
use forge_core::client::Client;
use forge_wire::forge::ClientView;

use crate::app::App;
use crate::config::Registration;
use crate::edge::routing::{Access, Call, Route};
use crate::edge::{ApiError, Exchange, Who, auth, body, respond};

/// The route.
pub(super) const ROUTES: &[Route] = &[Route::post("/v1/clients", "register", |call| Box::pin(create(call)))
    .access(Access::Own(|app, exchange| Box::pin(gate(app, exchange))))];

/// Who may register (ruling C-62): anybody, or whoever has the admin token; and how often (C-93).
async fn gate(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = match app.config.auth.registration {
        // Credentials do not matter where nobody needs them; not even bad ones.
        Registration::Open => Who::Nobody,
        Registration::Admin if !auth::knows_operator(app) => {
            let detail =
                "Registering needs the admin token, and the server has none: auth.admin_token is not set.";
            return Err(ApiError::new(Kind::ConfigInvalid, detail));
        }
        Registration::Admin => match auth::identify(app, exchange).await? {
            Who::Operator => Who::Operator,
            Who::Nobody => return Err(auth::unauthenticated("Registering needs the admin token.")),
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
