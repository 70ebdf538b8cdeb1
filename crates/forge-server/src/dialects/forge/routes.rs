//! The routes of `/v1`, and what each allows. Ids are parsed here, once; one that is no id is an id of nothing, which the
//! handlers answer when it is their turn.

use axum::http::Method;
use forge_core::id::{ClientId, DeliveryId, JobId, WebhookId};

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Clients,
    Keys(Option<ClientId>),
    KeysRenew(Option<ClientId>),
    KeysRevoke(Option<ClientId>),
    Jobs,
    Batch,
    Job(Option<JobId>),
    Cancel(Option<JobId>),
    Retry(Option<JobId>),
    Report(Option<JobId>),
    Result(Option<JobId>),
    Items(Option<JobId>),
    Events(Option<JobId>),
    JobDeliveries(Option<JobId>),
    JobDelivery(Option<JobId>, Option<DeliveryId>),
    JobRedeliver(Option<JobId>, Option<DeliveryId>),
    AllEvents,
    Webhooks,
    Webhook(Option<WebhookId>),
    WebhookRotate(Option<WebhookId>),
    WebhookTest(Option<WebhookId>),
    WebhookRedeliver(Option<WebhookId>),
    Deliveries(Option<WebhookId>),
    Delivery(Option<WebhookId>, Option<DeliveryId>),
    Redeliver(Option<WebhookId>, Option<DeliveryId>),
}

impl Route {
    /// Every route, with an id of nothing.
    #[cfg(test)]
    const ALL: [Route; 25] = [
        Route::Clients,
        Route::Keys(None),
        Route::KeysRenew(None),
        Route::KeysRevoke(None),
        Route::Jobs,
        Route::Batch,
        Route::Job(None),
        Route::Cancel(None),
        Route::Retry(None),
        Route::Report(None),
        Route::Result(None),
        Route::Items(None),
        Route::Events(None),
        Route::JobDeliveries(None),
        Route::JobDelivery(None, None),
        Route::JobRedeliver(None, None),
        Route::AllEvents,
        Route::Webhooks,
        Route::Webhook(None),
        Route::WebhookRotate(None),
        Route::WebhookTest(None),
        Route::WebhookRedeliver(None),
        Route::Deliveries(None),
        Route::Delivery(None, None),
        Route::Redeliver(None, None),
    ];

    /// The route of the path below `/v1`. A slash at the end makes it another path, which does not exist.
    pub(super) fn find(rest: &str) -> Option<Route> {
        let mut segments = rest.strip_prefix('/')?.split('/');
        let path = (segments.next()?, segments.next(), segments.next(), segments.next(), segments.next());
        if segments.next().is_some() {
            return None;
        }
        match path {
            ("jobs", None, ..) => Some(Route::Jobs),
            ("jobs", Some("batch"), None, ..) => Some(Route::Batch),
            ("events", None, ..) => Some(Route::AllEvents),
            ("jobs", Some(id), None, ..) if !id.is_empty() => Some(Route::Job(id.parse().ok())),
            ("jobs", Some(id), Some(what), None, _) => {
                let id = id.parse().ok();
                match what {
                    "cancel" => Some(Route::Cancel(id)),
                    "retry" => Some(Route::Retry(id)),
                    "report" => Some(Route::Report(id)),
                    "result" => Some(Route::Result(id)),
                    "items" => Some(Route::Items(id)),
                    "events" => Some(Route::Events(id)),
                    "deliveries" => Some(Route::JobDeliveries(id)),
                    _ => None,
                }
            }
            ("jobs", Some(id), Some("deliveries"), Some(delivery), then) if !delivery.is_empty() => {
                let (id, delivery) = (id.parse().ok(), delivery.parse().ok());
                match then {
                    None => Some(Route::JobDelivery(id, delivery)),
                    Some("redeliver") => Some(Route::JobRedeliver(id, delivery)),
                    Some(_) => None,
                }
            }
            ("webhooks", None, ..) => Some(Route::Webhooks),
            ("webhooks", Some(id), what, delivery, then) if !id.is_empty() => {
                let id = id.parse().ok();
                match (what, delivery, then) {
                    (None, None, None) => Some(Route::Webhook(id)),
                    (Some("rotate-secret"), None, None) => Some(Route::WebhookRotate(id)),
                    (Some("test"), None, None) => Some(Route::WebhookTest(id)),
                    (Some("redeliver"), None, None) => Some(Route::WebhookRedeliver(id)),
                    (Some("deliveries"), None, None) => Some(Route::Deliveries(id)),
                    (Some("deliveries"), Some(delivery), None) if !delivery.is_empty() => {
                        Some(Route::Delivery(id, delivery.parse().ok()))
                    }
                    (Some("deliveries"), Some(delivery), Some("redeliver")) => {
                        Some(Route::Redeliver(id, delivery.parse().ok()))
                    }
                    _ => None,
                }
            }
            ("clients", None, ..) => Some(Route::Clients),
            ("clients", Some(id), Some("keys"), None, _) => Some(Route::Keys(id.parse().ok())),
            ("clients", Some(id), Some("keys"), Some("renew"), None) => {
                Some(Route::KeysRenew(id.parse().ok()))
            }
            ("clients", Some(id), Some("keys"), Some("revoke"), None) => {
                Some(Route::KeysRevoke(id.parse().ok()))
            }
            _ => None,
        }
    }

    /// The methods of the route, as `Allow` lists them.
    pub(super) const fn methods(self) -> &'static str {
        match self {
            Route::Jobs | Route::Webhooks => "GET, HEAD, POST",
            Route::Webhook(_) => "GET, HEAD, PATCH, DELETE",
            Route::Deliveries(_) | Route::Delivery(..) | Route::JobDeliveries(_) | Route::JobDelivery(..) => {
                "GET, HEAD"
            }
            Route::WebhookRotate(_)
            | Route::WebhookTest(_)
            | Route::WebhookRedeliver(_)
            | Route::Redeliver(..)
            | Route::JobRedeliver(..) => "POST",
            Route::Job(_) => "GET, HEAD, DELETE",
            Route::Report(_) | Route::Result(_) | Route::Items(_) | Route::Events(_) | Route::AllEvents => {
                "GET, HEAD"
            }
            Route::Batch
            | Route::Clients
            | Route::Keys(_)
            | Route::KeysRenew(_)
            | Route::KeysRevoke(_)
            | Route::Cancel(_)
            | Route::Retry(_) => "POST",
        }
    }

    /// Whether the method is one of them.
    pub(super) fn allows(self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// The pattern of the route, for logs and metrics.
    pub(super) const fn pattern(self) -> &'static str {
        match self {
            Route::Webhooks => "/v1/webhooks",
            Route::Webhook(_) => "/v1/webhooks/{webhook_id}",
            Route::WebhookRotate(_) => "/v1/webhooks/{webhook_id}/rotate-secret",
            Route::WebhookTest(_) => "/v1/webhooks/{webhook_id}/test",
            Route::WebhookRedeliver(_) => "/v1/webhooks/{webhook_id}/redeliver",
            Route::Deliveries(_) => "/v1/webhooks/{webhook_id}/deliveries",
            Route::Delivery(..) => "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
            Route::Redeliver(..) => "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
            Route::Clients => "/v1/clients",
            Route::Keys(_) => "/v1/clients/{client_id}/keys",
            Route::KeysRenew(_) => "/v1/clients/{client_id}/keys/renew",
            Route::KeysRevoke(_) => "/v1/clients/{client_id}/keys/revoke",
            Route::Jobs => "/v1/jobs",
            Route::Batch => "/v1/jobs/batch",
            Route::Job(_) => "/v1/jobs/{job_id}",
            Route::Cancel(_) => "/v1/jobs/{job_id}/cancel",
            Route::Retry(_) => "/v1/jobs/{job_id}/retry",
            Route::Report(_) => "/v1/jobs/{job_id}/report",
            Route::Result(_) => "/v1/jobs/{job_id}/result",
            Route::Items(_) => "/v1/jobs/{job_id}/items",
            Route::Events(_) => "/v1/jobs/{job_id}/events",
            Route::JobDeliveries(_) => "/v1/jobs/{job_id}/deliveries",
            Route::JobDelivery(..) => "/v1/jobs/{job_id}/deliveries/{delivery_id}",
            Route::JobRedeliver(..) => "/v1/jobs/{job_id}/deliveries/{delivery_id}/redeliver",
            Route::AllEvents => "/v1/events",
        }
    }

    /// The job it is about.
    pub(super) const fn job(self) -> Option<JobId> {
        match self {
            Route::Job(id)
            | Route::Cancel(id)
            | Route::Retry(id)
            | Route::Report(id)
            | Route::Result(id)
            | Route::Items(id)
            | Route::Events(id)
            | Route::JobDeliveries(id)
            | Route::JobDelivery(id, _)
            | Route::JobRedeliver(id, _) => id,
            Route::Webhooks
            | Route::Webhook(_)
            | Route::WebhookRotate(_)
            | Route::WebhookTest(_)
            | Route::WebhookRedeliver(_)
            | Route::Deliveries(_)
            | Route::Delivery(..)
            | Route::Redeliver(..)
            | Route::Clients
            | Route::Keys(_)
            | Route::KeysRenew(_)
            | Route::KeysRevoke(_)
            | Route::Jobs
            | Route::Batch
            | Route::AllEvents => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_found_and_nothing_else() {
        for route in Route::ALL {
            // Any text that is no id will do: it leads to the route with an id of nothing.
            let path = route.pattern().replace(['{', '}'], "");
            let rest = path.strip_prefix("/v1").unwrap();
            assert_eq!(Route::find(rest), Some(route), "{path}");
            assert_eq!(Route::find(&format!("{rest}/")), None, "{path}/");
            assert_eq!(Route::find(&format!("{rest}/more/and/more")), None);
        }
        for rest in ["", "/", "/jobs/", "//jobs", "/Jobs", "/nothing", "/clients/x"] {
            assert_eq!(Route::find(rest), None, "{rest}");
        }
        assert_eq!(Route::find("/jobs/no-id/cancel"), Some(Route::Cancel(None)));
    }

    #[test]
    fn the_openapi_document_has_every_route_and_method_and_no_other() {
        let document = forge_wire::openapi::document("");
        let mut documented = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
            documented.extend(methods.map(|method| (path.as_str(), method)));
        }
        documented.retain(|(path, _)| path.starts_with("/v1"));
        let methods = |route: Route| route.methods().split(", ").filter(|method| *method != "HEAD");
        let routes = Route::ALL.into_iter();
        let mut routed: Vec<(&str, String)> = routes
            .flat_map(|route| methods(route).map(move |method| (route.pattern(), method.to_owned())))
            .collect();
        documented.sort();
        routed.sort();
        assert_eq!(documented, routed);
    }

    #[test]
    fn head_goes_where_get_goes() {
        for (route, method, allowed) in [
            (Route::Jobs, Method::GET, true),
            (Route::Jobs, Method::HEAD, true),
            (Route::Jobs, Method::POST, true),
            (Route::Jobs, Method::PUT, false),
            (Route::Job(None), Method::HEAD, true),
            (Route::Job(None), Method::DELETE, true),
            (Route::Report(None), Method::DELETE, false),
            (Route::Cancel(None), Method::GET, false),
            (Route::Clients, Method::OPTIONS, false),
        ] {
            assert_eq!(route.allows(&method), allowed, "{method} {route:?}");
        }
    }
}
