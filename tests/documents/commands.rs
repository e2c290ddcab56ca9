//! Every command of every document runs, on a real `pagemark up`, or [`OMITTED`] says why not.
//! Answers that documents show have the form of those that the commands get. Customers write
//! through the servers of `docs/shop`.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    mem::discriminant,
    ops::Range,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use hyper::Method;
use model::planted::Bug;
use scraper::{Html, Selector};
use serde_json::Value;
use strum::IntoEnumIterator;
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::{
    documents::{Block, PROJECT, blocks},
    folder_in_memory, free_port,
    function::binary,
    http::{Answer, Http, WRITE_TOKEN, encoded, page_path},
    pagemark::Up,
    program::{Program, run_tool},
    project_file, tool, wait_for,
};

const _: crate::Engines =
    crate::Engines::Embedded("the documents are about `pagemark up` with its own engine");

/// Commands that do not run here: their document, the beginning of their block, and why. Without a
/// beginning, all of the document's.
const OMITTED: [(&str, &str, &str); 16] = [
    ("README.md", "$ make", "builds and tests everything"),
    (
        "docs/benchmarks-notes.md",
        "",
        "measures for hours, or on AWS",
    ),
    ("docs/deploy.md", "", "needs an account of AWS"),
    (
        "docs/moving.md",
        "pagemark export --table",
        "needs an account of AWS",
    ),
    (
        "docs/moving.md",
        "aws dynamodb scan",
        "needs the table of another system",
    ),
    ("docs/moving.md", "duckdb", "`recipes` runs it"),
    (
        "docs/operate.md",
        "export PAGEMARK_TABLE",
        "names a deployed stack",
    ),
    (
        "docs/operate.md",
        "# `output` is",
        "needs an account of AWS",
    ),
    (
        "docs/operate.md",
        "aws stepfunctions",
        "needs an account of AWS",
    ),
    (
        "docs/operate.md",
        "TABLE=",
        "`smoke` runs them, on a simulation of AWS",
    ),
    (
        "docs/operate-one-machine.md",
        "install -d",
        "`local::data_folder::restored` runs them",
    ),
    (
        "docs/operate-one-machine.md",
        "systemctl stop",
        "needs systemd and a second machine",
    ),
    ("docs/operate-one-machine.md", "mv /var", "needs systemd"),
    (
        "docs/single-machine.md",
        "systemd-sysusers",
        "needs systemd",
    ),
    (
        "docs/single-machine.md",
        "make package-pagemark",
        "needs Podman",
    ),
    (
        "docs/tutorial.md",
        "curl --proto",
        "installs Rust and builds Pagemark",
    ),
];

/// Commands that run until they are ended, and a command that succeeds when they serve. `$LOG` is
/// what they print.
const SERVERS: [(&str, &str); 3] = [
    ("pagemark up", "grep -q 'Pagemark is ready' $LOG"),
    (
        "node reviews.mjs",
        "curl -o $OUT/none http://127.0.0.1:3000/ || [ $? = 22 ]",
    ),
    ("node site.mjs", "curl -o $OUT/none http://127.0.0.1:3002/"),
];

const COMMANDS: [&str; 2] = ["console", "sh"];

/// Kinds of blocks that are not commands.
const OTHER_KINDS: [&str; 9] = [
    "apache", "css", "html", "http", "json", "nginx", "text", "toml", "yaml",
];

/// Ports for what documents start. Lower than those that systems give to outgoing connections.
const PORTS: Range<u16> = 20_000..32_000;

/// What the commands of documents need, in the folder where they run.
const FILES: [(&str, &str); 7] = [
    ("FILE", COMMENT),
    ("FILE.jsonl", COMMENT),
    ("old.jsonl", COMMENT),
    ("new.jsonl", COMMENT),
    (
        "reviews.csv",
        "id,product,stars,text,posted\nr1,milk-jug,4,Gut,03.05.2024 10:00\n",
    ),
    ("reviews.jsonl", "{\"number\":7,\"stars\":9}\n"),
    (
        "export.csv",
        "title,body,rating,review_date,curated,reviewer_name,product_handle\n\
         Top,Fine,5,2024-05-03 10:00:00 UTC,ok,Ada,milk-jug\n",
    ),
];

const COMMENT: &str = "{\"id\":\"of-a-file\",\"product\":\"milk-jug\",\"language\":\"en\",\"rating\":5,\
     \"created_at\":\"2024-05-03T10:00:00Z\",\"body\":\"Good\"}\n";

/// The programs of the documents.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "pagemark",
        "if [ \"$1\" = up ]; then
            shift
            set -- up --listen \"$UP\" --dynamodb-listen 127.0.0.1:0 --operations-listen 127.0.0.1:0 \"$@\"
        fi
        case \" $* \" in *\" --data-dir \"*) ;; *) export PAGEMARK_DYNAMODB_URL=\"$ENGINE\";; esac
        exec \"$PAGEMARK_BINARY\" \"$@\"",
    ),
    ("repair-job", "exec pagemark repair \"$@\""),
    ("curl", "PATH=${PATH#*:} exec curl --fail-with-body --silent --show-error \"$@\""),
];

fn documents() -> Vec<String> {
    let mut documents = vec!["README.md".to_owned()];
    for entry in fs::read_dir(Path::new(PROJECT).join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            documents.push(format!("docs/{name}"));
        }
    }
    documents.sort();
    documents
}

/// A folder like a clone of the project in which Pagemark is built.
fn clone() -> TempDir {
    let clone = tempfile::tempdir().unwrap();
    let root = clone.path();
    for folder in ["bin", "home", "out", "target/local"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    symlink(Path::new(PROJECT).join("docs"), root.join("docs")).unwrap();
    let pagemark = root.join("bin/pagemark");
    symlink(pagemark, root.join("target/local/pagemark")).unwrap();
    for (name, text) in FILES {
        fs::write(root.join(name), text).unwrap();
    }
    for (name, text) in PROGRAMS {
        let path = root.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    clone
}

/// One script of numbered blocks. What each prints goes into a file with its number.
fn script(blocks: &[(usize, &Block)]) -> String {
    // The script has a separate process group, which ends with it.
    let mut lines = vec!["trap 'trap \"\" TERM; kill 0' EXIT".to_owned()];
    for (number, block) in blocks {
        let text = block
            .text
            .replace("/var/lib/pagemark", "$HOME/data")
            .replace("TOKEN=…", "TOKEN=$TOKEN")
            .replace("check ID", "check of-a-file");
        let server = SERVERS.iter().find(|(command, _)| text.contains(command));
        if let Some((_, serves)) = server {
            lines.push(format!("LOG=$OUT/{number}"));
            lines.push(format!("( {text} ) >$LOG 2>&1 &"));
            lines.push(format!("until {serves}; do sleep 0.1; done"));
        } else {
            lines.push(format!("{{\n{text}\n}} >$OUT/{number}"));
        }
    }
    lines.join("\n")
}

/// The variable `PATH` of a clone: the programs of documents stand before installed ones.
fn path_of(clone: &Path) -> String {
    let mut path = clone.join("bin").display().to_string();
    for tool in [
        tool("node-tools/node", "browser"),
        tool("aws-cli/bin/aws", "python-tools"),
    ] {
        path.push_str(&format!(":{}", tool.parent().unwrap().display()));
    }
    path.push_str(&format!(":{}", std::env::var("PATH").unwrap()));
    path
}

/// Runs the commands of a document. Returns what each block printed.
async fn run(document: &str, blocks: &[(usize, &Block)], up: &Up) -> Vec<(usize, String)> {
    let clone = clone();
    let root = clone.path();
    let own_api = format!("127.0.0.1:{}", free_port(PORTS));
    let shop_port = free_port(PORTS);
    let site_port = free_port(PORTS);
    let starts_its_own = blocks
        .iter()
        .any(|(_, block)| block.text.contains("pagemark up"));
    let api = if starts_its_own {
        &own_api
    } else {
        up.api.authority()
    };
    let script = script(blocks)
        .replace("127.0.0.1:8080", api)
        .replace("127.0.0.1:8000", &up.engine)
        .replace("127.0.0.1:3000", &format!("127.0.0.1:{shop_port}"))
        .replace("127.0.0.1:3002", &format!("127.0.0.1:{site_port}"));
    let mut command = Command::new("sh");
    command
        .args(["-eux", "-c", &script])
        .current_dir(root)
        .process_group(0)
        .env("PATH", path_of(root))
        .env("HOME", root.join("home"))
        .env("OUT", root.join("out"))
        .env("PAGEMARK_BINARY", binary("pagemark").await)
        .env("TOKEN", WRITE_TOKEN)
        .env("MODERATOR", WRITE_TOKEN)
        .env("UP", &own_api)
        .env("PORT", shop_port.to_string())
        .env("SITE_PORT", site_port.to_string())
        // A zone with summer time: no command may depend on the machine's.
        .env("TZ", "Europe/Berlin")
        .env("ENGINE", format!("http://{}", up.engine));
    println!("{document}");
    run_tool(command, "").await;
    let mut printed = Vec::new();
    for (number, _) in blocks {
        let file = root.join("out").join(number.to_string());
        printed.push((*number, fs::read_to_string(file).unwrap()));
    }
    printed
}

/// Whether an answer has the form that a document shows: the same keys, and values of the same
/// kinds. A list is as its first value. Null stands for any value.
fn is_of_form(answer: &Value, shown: &Value) -> bool {
    match (answer, shown) {
        (Value::Object(answer), Value::Object(shown)) => {
            answer.len() == shown.len()
                && answer.iter().all(|(key, value)| {
                    shown.get(key).is_some_and(|shown| is_of_form(value, shown))
                })
        }
        (Value::Array(answer), Value::Array(shown)) => match (answer.first(), shown.first()) {
            (Some(answer), Some(shown)) => is_of_form(answer, shown),
            _ => true,
        },
        (answer, shown) => {
            answer.is_null() || shown.is_null() || discriminant(answer) == discriminant(shown)
        }
    }
}

/// A block of JSON directly behind commands shows an answer of the form that the last one got.
fn assert_shown(document: &str, blocks: &[Block], printed: &[(usize, String)]) {
    for (number, printed) in printed {
        let Some(next) = blocks.get(number + 1) else {
            continue;
        };
        if next.kind != "json" || !next.before.trim().is_empty() {
            continue;
        }
        let answers = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
        let answer = answers
            .last()
            .unwrap()
            .unwrap_or_else(|error| panic!("{document}: {error}: {printed}"));
        let shown: Value = serde_json::from_str(&next.text).unwrap();
        assert!(
            is_of_form(&answer, &shown),
            "{document} shows {shown:#} instead of {answer:#}"
        );
    }
}

#[tokio::test]
#[ignore = "needs Node.js and the AWS CLI"]
async fn every_command_of_every_document_runs() {
    let data = folder_in_memory();
    let options = ["--demo", "2000", "--write-token", WRITE_TOKEN];
    let up = Up::start(data.path(), &options).await;
    let mut omitted = HashSet::new();
    for document in documents() {
        let blocks = blocks(&document);
        let mut runnable = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let kind = block.kind.as_str();
            if !COMMANDS.contains(&kind) {
                let is_known = OTHER_KINDS.contains(&kind);
                assert!(is_known, "{document} has another kind of block: {block:?}");
                continue;
            }
            let omission = OMITTED.iter().find(|(of, beginning, _)| {
                *of == document && block.text.trim_start().starts_with(beginning)
            });
            if let Some(omission) = omission {
                omitted.insert(omission);
            } else {
                runnable.push((number, block));
            }
        }
        if !runnable.is_empty() {
            let printed = run(&document, &runnable, &up).await;
            assert_shown(&document, &blocks, &printed);
        }
    }
    assert_eq!(
        omitted.len(),
        OMITTED.len(),
        "no document has the others: {omitted:?}"
    );
    up.stop().await;
}

/// What a browser sends when a customer has filled in the documented form.
fn filled(rating: &str, body: &str) -> String {
    let form = fs::read_to_string(Path::new(PROJECT).join("docs/shop/form.html")).unwrap();
    let form = Html::parse_fragment(&form);
    let mut fields = Vec::new();
    for field in form.select(&Selector::parse("[name]").unwrap()) {
        let name = field.attr("name").unwrap();
        let value = match name {
            "rating" => rating,
            "title" => "Milk",
            "body" => body,
            "language" => "de",
            _ => field.attr("value").unwrap(),
        };
        let pair = format!("{name}={}", encoded(value));
        // The five stars have one name.
        if !fields.contains(&pair) {
            fields.push(pair);
        }
    }
    fields.join("&")
}

/// Sends a form to a server of the shop. `from` is where the browser says that it comes from: a
/// value of `Sec-Fetch-Site`, or the origin of the page.
async fn send(server: &Http, cookie: &str, from: &str, form: &str) -> Answer {
    let typed = ("content-type", "application/x-www-form-urlencoded");
    let name = if from.starts_with("http") {
        "origin"
    } else {
        "sec-fetch-site"
    };
    let headers = [typed, ("cookie", cookie), (name, from)];
    let answer = server
        .send(Method::POST, "/reviews", &headers, form.as_bytes())
        .await;
    assert!(
        !format!("{answer:?}").contains(WRITE_TOKEN),
        "the browser gets the token: {answer:?}"
    );
    answer
}

/// Starts a server of `docs/shop`, and waits until it answers.
async fn serve(program: &str, arguments: &[&str], port: u16, api: &str) -> (Program, Http) {
    let variables = [
        ("PAGEMARK", format!("http://{api}")),
        ("TOKEN", WRITE_TOKEN.to_owned()),
        ("MODERATOR", WRITE_TOKEN.to_owned()),
        ("PORT", port.to_string()),
    ];
    let http = Http::new(format!("http://127.0.0.1:{port}"));
    let server = Program::start(program, arguments, variables);
    server.wait_for_connection(&http).await;
    (server, http)
}

/// A file of `docs/shop`.
fn of_shop(name: &str) -> String {
    format!("{PROJECT}/docs/shop/{name}")
}

/// Where PHP is installed.
fn php() -> String {
    let folders = std::env::var_os("PATH").unwrap();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join("php"));
    let php = paths.find(|path| path.exists());
    php.expect("make web-servers").display().to_string()
}

/// A customer writes a review in the form that a server serves. Others cannot, and the server names
/// what is wrong with a form.
async fn write_review(server: &Http, language: &str) {
    let good = filled("5", &format!("Better than <b>{language}</b> & \"all\""));
    for (cookie, from) in [
        ("", "same-origin"),
        ("customer=7", "cross-site"),
        ("customer=7", "same-site"),
        ("customer=7", "http://evil.example"),
    ] {
        assert_eq!(send(server, cookie, from, &good).await.status, 403);
    }
    let typed = ("content-type", "application/x-www-form-urlencoded");
    let unnamed = [typed, ("cookie", "customer=7")];
    let forged = server
        .send(Method::POST, "/reviews", &unnamed, good.as_bytes())
        .await;
    assert_eq!(
        forged.status, 403,
        "an old browser says where the form comes from"
    );
    let long = filled("5", &"long ".repeat(30_000));
    let twice = good.replace("product=", "product[]=");
    for wrong in [long.as_str(), twice.as_str(), "rating=5"] {
        let refused = send(server, "customer=7", "same-origin", wrong).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.body, "This is no review.");
    }
    let bad = send(server, "customer=7", "same-origin", &filled("9", "Good")).await;
    assert_eq!(bad.status, 400, "{bad:?}");
    assert!(bad.body.starts_with("rating: 9 is not"), "{bad:?}");
    // The second one creates nothing. It comes from a browser without `Sec-Fetch-Site`.
    for from in ["same-origin", server.base()] {
        let sent = send(server, "customer=7", from, &good).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        assert_eq!(
            sent.header("location"),
            Some("/espresso-machine?thanks"),
            "{sent:?}"
        );
    }
}

/// The staff publishes the only review that waits.
async fn publish_review(queue: &Http, language: &str) {
    let as_customer = send(queue, "customer=7", "same-origin", "").await;
    assert_eq!(as_customer.status, 403);
    let cookie = [("cookie", "staff=yes")];
    let waiting = queue.send(Method::GET, "/", &cookie, b"").await.body;
    let escaped = format!("Better than &#60;b&#62;{language}&#60;/b&#62; &#38; &#34;all&#34;");
    assert!(waiting.contains(&escaped), "{waiting}");
    assert_eq!(waiting.matches("<form").count(), 1, "{waiting}");
    assert!(waiting.contains("<h1>1 wait</h1>"), "{waiting}");
    assert!(
        waiting.contains("<blockquote lang=\"de\"><b>Milk</b>"),
        "{waiting}"
    );
    assert!(
        waiting.contains("espresso-machine, 5 out of 5"),
        "{waiting}"
    );
    assert!(waiting.contains("<time>20"), "{waiting}");
    let (_, rest) = waiting.split_once("name=\"id\" value=\"").unwrap();
    let (id, _) = rest.split_once('"').unwrap();
    let decision = format!("id={id}&status=published");
    let decided = send(queue, "staff=yes", "same-origin", &decision).await;
    assert!(decided.body.contains("Nothing waits."), "{decided:?}");
}

#[tokio::test]
#[ignore = "needs Node.js and the AWS CLI"]
async fn customers_write_in_a_form_of_the_shop_and_its_staff_decides() {
    let data = folder_in_memory();
    let options = [
        "--demo",
        "0",
        "--write-token",
        WRITE_TOKEN,
        "--new-comments",
        "pending",
        "--archive-after",
        "0",
    ];
    let up = Up::start(data.path(), &options).await;
    let api = &up.api;
    let node = tool("node-tools/node", "browser");
    let node = node.to_str().unwrap();

    let port = free_port(PORTS);
    let script = of_shop("reviews.mjs");
    let (_node_server, in_node) = serve(node, &[&script], port, api.authority()).await;
    let port = free_port(PORTS);
    let address = format!("127.0.0.1:{port}");
    let script = of_shop("reviews.php");
    let arguments = ["-S", &address, &script];
    let (_php_server, in_php) = serve(&php(), &arguments, port, api.authority()).await;
    let port = free_port(PORTS);
    let script = of_shop("queue.mjs");
    let (_queue_server, queue) = serve(node, &[&script], port, api.authority()).await;

    // The queue has a page behind the first one.
    for number in 0..21 {
        let written = filled("3", &format!("Review {number}"));
        assert_eq!(
            send(&in_node, "customer=8", "same-origin", &written)
                .await
                .status,
            303
        );
    }
    let cookie = [("cookie", "staff=yes")];
    let first = queue.send(Method::GET, "/", &cookie, b"").await.body;
    assert!(first.contains("<h1>20 wait, and more</h1>"), "{first}");
    let (_, next) = first.split_once("<a href=\"").unwrap();
    let next = format!("/{}", next.split_once('"').unwrap().0);
    let second = queue.send(Method::GET, &next, &cookie, b"").await.body;
    assert!(second.contains("<h1>1 wait</h1>"), "{second}");
    for waiting in [first, second] {
        for rest in waiting.split("name=\"id\" value=\"").skip(1) {
            let (id, _) = rest.split_once('"').unwrap();
            let decision = format!("id={id}&status=hidden");
            let decided = send(&queue, "staff=yes", "same-origin", &decision).await;
            assert_eq!(decided.status, 200, "{decided:?}");
        }
    }

    // A review is hidden until the staff has decided.
    let page = page_path("espresso-machine");
    for (language, server, status_before) in [("Node.js", &in_node, 404), ("PHP", &in_php, 200)] {
        write_review(server, language).await;
        assert_eq!(api.get(&page).await.status, status_before);
        publish_review(&queue, language).await;
        wait_for("the published review", async || {
            let shown = api.get(&page).await;
            if shown.body.contains(&format!("&#60;b&#62;{language}")) {
                Ok(())
            } else {
                Err(shown)
            }
        })
        .await;
    }
    up.stop().await;
}

/// Whether a guarantee's proof exists: a planted bug, a module of tests, or a file.
fn exists(proof: &str) -> bool {
    let module = format!("tests/{}", proof.replace("::", "/"));
    let files = [
        format!("{module}.rs"),
        format!("{module}/mod.rs"),
        format!("libs/model/src/{proof}"),
    ];
    let mut paths = files.iter().map(|file| Path::new(PROJECT).join(file));
    proof.parse::<Bug>().is_ok() || paths.any(|path| path.exists())
}

/// The last column of the table of guarantees names planted bugs, modules of tests, and files.
#[test]
fn the_proofs_of_the_guarantees_exist() {
    let mut proofs = BTreeSet::new();
    let page = project_file("docs/guarantees.md");
    for line in page.lines() {
        let Some(row) = line.strip_suffix('|') else {
            continue;
        };
        if let Some((_, last_column)) = row.rsplit_once('|') {
            // The names are in back quotes.
            proofs.extend(last_column.split('`').skip(1).step_by(2));
        }
    }
    for proof in &proofs {
        assert!(exists(proof), "{proof}");
    }
    for bug in Bug::iter() {
        let name = bug.to_string();
        assert!(
            proofs.contains(name.as_str()),
            "which promise does {name} break?"
        );
    }
}

/// The last column of the table in docs/engines.md names tests of `functions::engines`.
#[test]
fn the_tests_that_ask_an_engine_exist() {
    let page = project_file("docs/engines.md");
    let (_, table) = page.split_once("| an engine must |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        let test = row.rsplit('`').nth(1).unwrap();
        let (module, name) = test.split_once("::").unwrap();
        let code = project_file(&format!("tests/functions/engines/{module}.rs"));
        assert!(code.contains(&format!("fn {name}(")), "{test}");
    }
}
