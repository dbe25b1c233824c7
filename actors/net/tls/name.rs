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

/// IDNA for names that are written in lower case and composed form, as registries demand; others
/// come out as a name that no certificate has.
fn ascii(host: &str) -> Option<String> {
    if host.is_ascii() {
        return Some(host.to_owned());
    }
    let label = |label: &str| {
        if label.is_ascii() {
            return Some(label.to_owned());
        }
        let lower = label.to_lowercase();
        Some(format!("xn--{}", punycode(&lower)?))
    };
    let labels: Option<Vec<_>> = host.split(['.', '。', '．', '｡']).map(label).collect();
    Some(labels?.join("."))
}

/// The encoding of RFC 3492; `None` if it overflows.
fn punycode(label: &str) -> Option<String> {
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).ok()?;
    let total = u32::try_from(label.chars().count()).ok()?;
    if basic > 0 {
        out.push('-');
    }
    let (mut code, mut delta, mut bias, mut handled) = (INITIAL_N, 0_u32, INITIAL_BIAS, basic);
    while handled < total {
        let next = label.chars().map(u32::from).filter(|c| *c >= code).min()?;
        delta = delta.checked_add((next - code).checked_mul(handled + 1)?)?;
        code = next;
        for char in label.chars().map(u32::from) {
            if char < code {
                delta = delta.checked_add(1)?;
            }
            if char == code {
                encode_delta(&mut out, delta, bias)?;
                bias = adapt(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        code = code.checked_add(1)?;
    }
    Some(out)
}

fn encode_delta(out: &mut String, delta: u32, bias: u32) -> Option<()> {
    let (mut rest, mut k) = (delta, BASE);
    loop {
        let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if rest < threshold {
            out.push(digit(rest)?);
            return Some(());
        }
        out.push(digit(threshold + (rest - threshold) % (BASE - threshold))?);
        rest = (rest - threshold) / (BASE - threshold);
        k = k.checked_add(BASE)?;
    }
}

fn adapt(delta: u32, points: u32, first: bool) -> u32 {
    let mut delta = if first { delta / DAMP } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

fn digit(value: u32) -> Option<char> {
    char::from_digit(value, 36).map(|_| match value {
        0..=25 => char::from_u32(u32::from('a') + value),
        _ => char::from_u32(u32::from('0') + value - 26),
    })?
}

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_N: u32 = 128;

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
