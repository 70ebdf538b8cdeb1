//! Limits on connections: in all, so that files and deliveries still get a descriptor, and per
//! address, so that one caller cannot exclude all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Config, Network};
use crate::limits::{DESCRIPTORS_RESERVED_MIN, DESCRIPTORS_RESERVED_PERCENT, site_of};

/// The limit that reserves a quarter of the process's descriptors for files, databases, deliveries
/// and answers. `None` if there is no descriptor limit.
pub(crate) fn n_by_descriptors() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    Some(without_reserve(usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn without_reserve(limit: usize) -> usize {
    let reserve = (limit / 100).saturating_mul(DESCRIPTORS_RESERVED_PERCENT).max(DESCRIPTORS_RESERVED_MIN);
    limit.saturating_sub(reserve).max(1)
}

/// Counts the connections of each address on one listener.
pub(super) struct AddressPlaces {
    n_max: usize,
    /// Proxies with the connections of many clients.
    trusted: Vec<Network>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl AddressPlaces {
    /// As configured, but never more than `n_in_all`.
    pub(super) fn new(config: &Config, n_in_all: usize) -> Arc<AddressPlaces> {
        let n_max = config.limits.connections_per_address;
        let n_max = n_max.map_or(usize::MAX, |n| n.min((n_in_all / 4 * 3).max(1)));
        let trusted = config.server.trusted_proxies.clone();
        Arc::new(AddressPlaces { n_max, trusted, open: Mutex::default() })
    }

    /// A place for a connection of this address; `None` at its limit.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<AddressPlace> {
        let address = address.to_canonical();
        if self.trusted.iter().any(|network| network.contains(address)) {
            return Some(AddressPlace { places: self.clone(), site: None });
        }
        let site = site_of(address);
        let mut open = self.lock();
        let n = open.entry(site).or_default();
        if *n >= self.n_max {
            return None;
        }
        *n += 1;
        Some(AddressPlace { places: self.clone(), site: Some(site) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Never half changed, so a panic elsewhere is harmless.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held as long as a connection lasts.
pub(super) struct AddressPlace {
    places: Arc<AddressPlaces>,
    /// `None` if it is not counted.
    site: Option<IpAddr>,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some(site) = self.site else { return };
        let mut open = self.places.lock();
        if let Some(n) = open.get_mut(&site) {
            *n -= 1;
            if *n == 0 {
                open.remove(&site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn a_quarter_of_the_descriptors_is_kept_for_files() {
        for (limit, n) in [(1024, 774), (1_000_000, 750_000), (256, 128), (100, 1)] {
            assert_eq!(without_reserve(limit), n, "{limit}");
        }
    }

    #[test]
    fn an_address_has_so_many_connections_and_a_trusted_proxy_any_number() {
        let settings = [
            ("FORGERUN_LIMITS__CONNECTIONS_PER_ADDRESS", "2"),
            ("FORGERUN_SERVER__TRUSTED_PROXIES", "10.0.0.0/8"),
        ];
        let environment = settings.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
        let places = AddressPlaces::new(&config, 1000);
        let enter = |address: &str| places.enter(address.parse().unwrap());
        let (first, _second) = (enter("192.0.2.1"), enter("::ffff:192.0.2.1"));
        assert!(first.is_some() && enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        let of_proxy: Vec<_> = (0..10).map(|_| enter("10.1.2.3").unwrap()).collect();
        drop(of_proxy);
        let few = AddressPlaces::new(&config, 2);
        let _one = few.enter("192.0.2.1".parse().unwrap()).unwrap();
        assert!(few.enter("192.0.2.1".parse().unwrap()).is_none(), "never all of them");
    }
}
