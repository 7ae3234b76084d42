//! Which language the reader wants.

use clap::ValueEnum;

/// Languages of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Lang {
    /// English
    #[default]
    En,
    /// Chinese (simplified)
    Zh,
}

impl Lang {
    /// The language of the locale: the first of `LC_ALL`, `LC_MESSAGES`, `LANG` that is set and not empty (POSIX).
    pub fn of_locale() -> Lang {
        Lang::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Lang {
        let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
        let locale = set.unwrap_or_default().to_ascii_lowercase();
        let language = locale.split(['_', '.', '@', '-']).next().unwrap_or("");
        if language == "zh" { Lang::Zh } else { Lang::En }
    }

    /// Its tag, for `<html lang>`.
    pub fn tag(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Zh => "zh-CN",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_set_counts() {
        let lang = |pairs: &[(&str, &str)]| {
            Lang::of(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(lang(&[]), Lang::En);
        assert_eq!(lang(&[("LANG", "zh_CN.UTF-8")]), Lang::Zh);
        assert_eq!(lang(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")]), Lang::En);
        assert_eq!(lang(&[("LANG", "en_US.UTF-8"), ("LC_ALL", ""), ("LC_MESSAGES", "zh")]), Lang::Zh);
        assert_eq!(lang(&[("LANG", "zha_XX")]), Lang::En);
    }
}
