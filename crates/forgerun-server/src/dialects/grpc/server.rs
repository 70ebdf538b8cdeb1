//! Manifest and health, and calls that are not supported.

use forgerun_wire::grpc::{json, moment, v1};
use serde_json::Value;

use crate::dialects::ojs::server as ojs;
use crate::http::{ApiError, routing::Call};

pub(super) async fn manifest(
    call: Call<'_>,
    _: v1::ManifestRequest,
) -> Result<v1::ManifestResponse, ApiError> {
    let manifest = ojs::current_manifest(call.app, &call.app.base);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
    let program = &manifest["implementation"];
    Ok(v1::ManifestResponse {
        ojs_version: text(&manifest["ojs_version"]),
        implementation: Some(v1::Implementation {
            name: text(&program["name"]),
            version: text(&program["version"]),
            language: text(&program["language"]),
        }),
        conformance_level: manifest["conformance_level"].as_i64().unwrap_or_default() as i32,
        protocols: texts(&manifest["protocols"]),
        backend: text(&manifest["backend"]),
        extensions: texts(&manifest["extensions"]),
        schema_validation: manifest["schema_validation"].as_bool().unwrap_or_default(),
    })
}

pub(super) async fn health(call: Call<'_>, _: v1::HealthRequest) -> Result<v1::HealthResponse, ApiError> {
    let (good, found) = ojs::current_health(call.app).await;
    let status = if good { v1::HealthStatus::Ok } else { v1::HealthStatus::Unhealthy };
    Ok(v1::HealthResponse {
        status: status.into(),
        timestamp: Some(moment::timestamp(call.app.clock.now())),
        details: json::of_object(&found),
    })
}
