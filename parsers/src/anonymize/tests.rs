//! Texts of which it is known what is a name in them.

use super::*;

fn anonymized(texts: &[&str]) -> Vec<String> {
    let mut anonymizer = Anonymizer::new(7);
    texts.iter().for_each(|text| anonymizer.learn_text(text.as_bytes()));
    let mut ready = anonymizer.ready();
    texts.iter().map(|text| String::from_utf8(ready.text(text.as_bytes())).expect("UTF-8")).collect()
}

const ID: &str = "08829bd7e7a589ad6b71f9849ed4ec55396edd132dee064930c54418651afa67";

#[test]
fn a_name_has_one_pseudonym_however_it_is_escaped() {
    let journal = "Nov 29 12:20:07 prod-db-7 dockerd[812]: hello\n";
    let escaped = [
        "a line\\nprod-db-7 says",
        "\\u003cprod-db-7\\u003e",
        "first#012prod-db-7#012last",
        "x%2Fprod-db-7%2Fy",
        "\x1b[31mprod-db-7\x1b[0m",
        "#033[31mprod-db-7#033[0m",
        "\\\\nprod-db-7\\\\n",
        "\"prod-db-7\"",
        "prod-db-7.",
        "prod-db-7:/export",
        "prod\\u002ddb\\u002d7",
        "var-log-prod\\x2ddb\\x2d7.mount",
    ];
    let mut texts = vec![journal];
    texts.extend(escaped);
    let out = anonymized(&texts);
    let pseudonym = out[0].split_whitespace().nth(3).expect("a host").to_string();
    assert_eq!(pseudonym.len(), "prod-db-7".len());
    assert!(out[0].contains("dockerd[812]: hello") && out[0].starts_with("Nov 29 12:20:07 "), "{}", out[0]);
    for (before, after) in escaped.iter().zip(&out[1..]) {
        let plain = after.replace("\\u002d", "-").replace("\\x2d", "-");
        assert!(plain.contains(&pseudonym) && !after.contains("prod"), "{before} became {after}");
    }
}

#[test]
fn names_within_arrays_of_bytes_base64_and_utf16_are_found() {
    let host = "Nov 29 12:20:07 prod-db-7 dockerd[812]: hello\n";
    let message = "goroutine 1 on prod-db-7 stopped\n";
    let numbers: Vec<String> = message.bytes().map(|b| b.to_string()).collect();
    let array = format!("{{\"MESSAGE\":[{}]}}", numbers.join(","));
    let coded = "Z29yb3V0aW5lIDEgb24gcHJvZC1kYi03IHN0b3BwZWQK";
    let out = anonymized(&[host, &array, coded]);
    let pseudonym = out[0].split_whitespace().nth(3).expect("a host").to_string();
    let inner = embedded::decoded(out[1].as_bytes()).next().expect("an array still");
    assert_eq!(String::from_utf8_lossy(&inner), message.replace("prod-db-7", &pseudonym));
    let inner = embedded::decoded(out[2].as_bytes()).next().expect("base64 still");
    assert_eq!(String::from_utf8_lossy(&inner), message.replace("prod-db-7", &pseudonym));
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(host.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let mut anonymizer = Anonymizer::new(7);
    anonymizer.learn_text(&wide);
    let narrow = String::from_utf8(anonymizer.ready().text(&wide)).expect("UTF-8 now");
    assert!(narrow.contains("dockerd[812]: hello") && !narrow.contains("prod-db-7"), "{narrow}");
}

#[test]
fn short_ids_begin_as_their_long_forms_do() {
    let long = format!("id={ID}");
    let out =
        anonymized(&[&long, "08829bd7e7a5 Up 3 minutes", "docker-08829bd7e7a589ad6b71.scope", &ID.to_uppercase()]);
    let id = out[0].strip_prefix("id=").expect("the key stays");
    assert_eq!(id.len(), 64);
    assert_ne!(id, ID);
    assert!(id.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(out[1], format!("{} Up 3 minutes", &id[..12]));
    assert_eq!(out[2], format!("docker-{}.scope", &id[..20]));
}

#[test]
fn what_go_prints_is_kept() {
    let dump = "goroutine 34 [semacquire, 7 minutes]:\n\
        github.com/docker/docker/daemon.(*Daemon).ContainerInspect(0xc0000ccec0, {0xc000a3e1a8, 0x40})\n\
        \t/go/src/github.com/docker/docker/api/server/web.go:138 +0x105 fp=0xc000a3e1a8 sp=0xc000a3e1a0 pc=0x4705e7\n\
        golang.org/x/net/http2.(*Framer).ReadFrame(0xc0000ccec4)\n\
        \t/root/go/pkg/mod/golang.org/x/net@v0.0.0-20190717161051-705d9623b7c1/http2/frame.go:492 +0x9c\n\
        created by main.(*api).serve in goroutine 12\n\
        \t/src/api.go:12 +0x9c\n";
    let listing = format!("{ID}   busybox:1.35   \"sleep\"   5 minutes ago   Up 5 minutes             api\n");
    let out = anonymized(&[
        dump,
        &listing,
        "time=\"2026-11-29T12:04:02.347463877Z\" level=info pid=30303 build-id=b31f0708d353bcd5d7136b6d8e55cbcd23c49a89",
    ]);
    assert_eq!(out[0], dump);
    assert!(!out[1].contains("api") && !out[1].contains("busybox") && !out[1].contains(ID), "{}", out[1]);
    assert!(out[2].contains("2026-11-29T12:04:02.347463877Z") && out[2].contains("pid=30303"));
    assert!(out[2].contains("b31f0708d353bcd5d7136b6d8e55cbcd23c49a89"), "build ids tie dumps to public binaries");
}

#[test]
fn private_packages_lose_their_host_and_owner() {
    let dump = "git.corp-example.net/payments/agent/pool.(*Pool).Get(0xc0000ccec0)\n\t/src/git.corp-example.net/payments/agent/pool/pool.go:12 +0x9c\n";
    let out = anonymized(&[dump, "\\ngit.corp-example.net/payments/agent.Run(0x1)\\n\\t/x.go:1"]);
    for text in &out {
        assert!(!text.contains("corp-example") && !text.contains("payments"), "{text}");
    }
    assert!(out[0].contains("agent/pool.(*Pool).Get(0xc0000ccec0)"), "{}", out[0]);
}

#[test]
fn addresses_mail_and_secrets() {
    let text = "10.1.2.3:443 127.0.0.1 0.0.0.0 fe80::1ff:fe23:4567:890a ::1 00:16:3e:0a:0b:0c at 12:34:56 \
        jane.doe@corp.example.com Authorization: Bearer abcDEF123456 password=hunter2xyz \
        https://bob:s3cr3t@registry.corp.example.com/v2/ AKIAIOSFODNN7EXAMPLE \
        eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef /home/jdoe/x i-0abcd1234efgh5678 \
        pod8dfe7dd2-1f3a-4b6e-9c1d-7999aa11e1d7 v1.2.3 go1.19.8 main.go:10\n";
    let out = anonymized(&[text, "again 10.1.2.3"]);
    for gone in [
        "10.1.2.3",
        "fe80",
        "00:16:3e",
        "jane",
        "corp",
        "abcDEF",
        "hunter2",
        "bob",
        "s3cr3t",
        "AKIAIO",
        "eyJhb",
        "jdoe",
        "0abcd1234",
        "8dfe7dd2",
        "7999aa11e1d7",
    ] {
        assert!(!out[0].contains(gone), "{gone} in {}", out[0]);
    }
    for kept in ["127.0.0.1", "0.0.0.0", "::1", "12:34:56", "/home/", "v1.2.3", "go1.19.8", "main.go:10", ":443"] {
        assert!(out[0].contains(kept), "{kept} in {}", out[0]);
    }
    let ip = out[0].split(':').next().expect("an address");
    assert_eq!(out[1], format!("again {ip}"));
}

#[test]
fn pods_volumes_and_users_are_learned_where_they_stand() {
    let out = anonymized(&[
        "pod=\"shop/checkout-7f9c-x2x9k\" containerName=\"checkout\"\n",
        "k8s_checkout_checkout-7f9c-x2x9k_shop_8dfe7dd2-1f3a-4b6e-9c1d-7999aa11e1d7_0",
        "/var/lib/kubelet/pods/8dfe7dd2-1f3a-4b6e-9c1d-7999aa11e1d7/volumes/kubernetes.io~nfs/orders-data",
        "USER       PID %CPU COMMAND\nroot         1  0.0 /sbin/init\nalice     4242  0.0 vim /home/alice/notes\n",
    ]);
    for text in &out {
        for gone in ["checkout", "shop", "orders-data", "alice", "8dfe7dd2"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
    }
    assert!(out[1].starts_with("k8s_") && out[1].ends_with("_0") && out[1].matches('_').count() == 5, "{}", out[1]);
    assert!(out[3].contains("root         1"), "{}", out[3]);
}

#[test]
fn nothing_panics_and_lines_stay() {
    for bytes in [
        &b""[..],
        b"\0\0\0",
        b"\xff\xfe",
        b"[1,2,3,4,5,6,7,300]",
        b"[",
        b"::::",
        b"\\u00",
        b"=",
        b"a@b.c",
        &[0x80; 300],
    ] {
        let mut anonymizer = Anonymizer::new(1);
        anonymizer.learn_text(bytes);
        anonymizer.ready().text(bytes);
    }
    assert_eq!(sort(b"\x7fELF\x02\x01\x01\0\x03\x01\x02\x03\x04\x05\x06"), Sort::Binary);
    assert_eq!(sort("a text – with more than ASCII\n".as_bytes()), Sort::Text);
}
