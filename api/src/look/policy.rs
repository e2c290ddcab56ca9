//! What the content security policy of pages (`html::error_page`) lets a browser load: files of the site's own origin.

/// The most characters of an address that a message repeats.
const SHOWN_CHARS: usize = 80;

/// Why a browser does not load a file from this address, and what to do. `None` if it does. `origin` is that of the site.
pub(super) fn problem_of(address: &str, origin: &str) -> Option<String> {
    let address = address.trim();
    let is_path = address.starts_with('/') && !address.starts_with("//") && !address.starts_with("/\\");
    let of_origin = address.strip_prefix(origin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_path || of_origin || address.starts_with('#') {
        return None;
    }
    let shown: String = address.chars().take(SHOWN_CHARS).collect();
    Some(format!(
        "a browser does not load \"{shown}\", because the content security policy of pages allows only files of \
         {origin}; put the file there, and write its path from the root, such as /logo.svg"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_loads_files_of_the_sites_own_origin() {
        let origin = "https://shop.example";
        for loaded in ["/logo.svg", " /a/b.png?c#d", "#id", "https://shop.example", "https://shop.example/logo.svg"] {
            assert_eq!(problem_of(loaded, origin), None, "{loaded}");
        }
        for blocked in [
            "//cdn.example/a",
            "/\\cdn.example",
            "https://shop.example.org/a",
            "http://shop.example/a",
            "data:,x",
            "a.png",
            "",
        ] {
            assert!(problem_of(blocked, origin).is_some_and(|problem| problem.contains(blocked)), "{blocked}");
        }
    }
}
