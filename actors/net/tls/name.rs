//! The name a certificate must be for (T2).

use rustls_pki_types::ServerName;

/// The advertised host as TLS has it: without a trailing dot, in ASCII. IP literals stay IP
/// literals: they carry no SNI and need a SAN of their kind.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let name = ascii(host).and_then(|name| ServerName::try_from(name).ok());
    name.ok_or_else(|| {
        let host = host.escape_debug();
        format!("`{host}` is neither a host name nor an address, so no certificate can be for it")
    })
}

/// The ASCII form of a name in any script (IDNA); names in ASCII stay as they are.
fn ascii(host: &str) -> Option<String> {
    if host.is_ascii() {
        return Some(host.to_owned());
    }
    idna::domain_to_ascii(host).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_dot_and_addresses_stay_addresses() {
        let shown = |host: &str| server_name(host).map(|name| name.to_str().into_owned());
        assert_eq!(shown("kafka-1.example.").as_deref(), Ok("kafka-1.example"));
        assert!(matches!(
            server_name("10.0.0.1"),
            Ok(ServerName::IpAddress(_))
        ));
        assert!(matches!(server_name("::1"), Ok(ServerName::IpAddress(_))));
        assert!(shown("a b").unwrap_err().contains("neither"));
        assert!(server_name("").is_err());
    }

    #[test]
    fn names_of_all_scripts_become_ascii() {
        let cases = [
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("münchen.de", "xn--mnchen-3ya.de"),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
            ("пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"),
        ];
        for (host, expected) in cases {
            assert_eq!(ascii(host).as_deref(), Some(expected), "{host}");
        }
    }
}
