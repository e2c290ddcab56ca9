//! Every command of every document runs, on a real `pagemark up`, or [`LEFT_OUT`] says why not.
//! Answers that documents show have the form of those that the commands get. Customers write
//! through the servers of `docs/shop`.

use std::{
    collections::{BTreeSet, HashSet},
    fs, iter,
    mem::discriminant,
    ops::Range,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use hyper::Method;
use itertools::Itertools;
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
    tool, wait_for,
};

/// Commands that do not run here: their document, the beginning of their block, and why. Without a
/// beginning, all of the document's.
const LEFT_OUT: [(&str, &str, &str); 12] = [
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
    ("docs/moving.md", "duckdb", "needs DuckDB"),
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
const SERVERS: [(&str, &str); 2] = [
    ("pagemark up", "grep -q 'Pagemark is ready' $LOG"),
    (
        "node reviews.mjs",
        "curl -o $OUT/none http://127.0.0.1:3000/ || [ $? = 22 ]",
    ),
];

const COMMANDS: [&str; 2] = ["console", "sh"];

/// Kinds of blocks that are no commands.
const OTHER_KINDS: [&str; 8] = [
    "apache", "css", "html", "http", "ini", "json", "nginx", "text",
];

/// Ports for what documents start. Lower than those that systems give to outgoing connections.
const PORTS: Range<u16> = 20_000..32_000;

/// What the commands of documents need, in the folder where they run.
const FILES: [(&str, &str); 6] = [
    ("FILE", COMMENT),
    ("FILE.jsonl", COMMENT),
    ("old.jsonl", COMMENT),
    ("new.jsonl", COMMENT),
    (
        "reviews.csv",
        "id,product,stars,text,posted\nr1,milk-jug,4,Gut,03.05.2024 10:00\n",
    ),
    ("reviews.jsonl", "{\"number\":7,\"stars\":9}\n"),
];

const COMMENT: &str = "{\"id\":\"of-a-file\",\"product\":\"milk-jug\",\"language\":\"en\",\"rating\":5,\
     \"created_at\":\"2024-05-03T10:00:00Z\",\"body\":\"Good\"}\n";

/// The programs of the documents. Those of `cargo run --bin` are built already.
const PROGRAMS: [(&str, &str); 4] = [
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
    ("cargo", "shift 4; exec \"$BENCH_BINARY\" \"$@\""),
    ("curl", "PATH=${PATH#*:} exec curl --fail-with-body --silent --show-error \"$@\""),
];

fn documents() -> Vec<String> {
    let folder = fs::read_dir(Path::new(PROJECT).join("docs")).unwrap();
    let names =
        folder.map(|entry| format!("docs/{}", entry.unwrap().file_name().to_str().unwrap()));
    names
        .filter(|name| name.ends_with(".md"))
        .chain(["README.md".to_owned()])
        .sorted()
        .collect()
}

/// A folder like a clone of the project in which Pagemark is built.
fn clone() -> TempDir {
    let clone = tempfile::tempdir().unwrap();
    let at = |path: &str| clone.path().join(path);
    for folder in ["bin", "home", "out", "target/local"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    symlink(Path::new(PROJECT).join("docs"), at("docs")).unwrap();
    symlink(at("bin/pagemark"), at("target/local/pagemark")).unwrap();
    for (name, text) in FILES {
        fs::write(at(name), text).unwrap();
    }
    for (name, text) in PROGRAMS {
        let path = at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    clone
}

/// One script of numbered blocks. What each prints goes into a file with its number.
fn script(blocks: &[(usize, &Block)]) -> String {
    let block = |(number, block): &(usize, &Block)| {
        let text = block
            .text
            .replace("/var/lib/pagemark", "$HOME/data")
            .replace("TOKEN=…", "TOKEN=$TOKEN");
        let text = text.replace("check ID", "check of-a-file");
        match SERVERS.iter().find(|(command, _)| text.contains(command)) {
            Some((_, serves)) => {
                format!(
                    "LOG=$OUT/{number}\n( {text} ) >$LOG 2>&1 &\nuntil {serves}; do sleep 0.1; done"
                )
            }
            None => format!("{{\n{text}\n}} >$OUT/{number}"),
        }
    };
    // The script has a process group of its own, which ends with it.
    iter::once("trap 'trap \"\" TERM; kill 0' EXIT".to_owned())
        .chain(blocks.iter().map(block))
        .join("\n")
}

/// Runs the commands of a document. Returns what each block printed.
async fn run(document: &str, blocks: &[(usize, &Block)], up: &Up) -> Vec<(usize, String)> {
    let (clone, starts) = (
        clone(),
        blocks
            .iter()
            .any(|(_, block)| block.text.contains("pagemark up")),
    );
    let (own, shop) = (format!("127.0.0.1:{}", free_port(PORTS)), free_port(PORTS));
    let api = if starts { &own } else { up.api.authority() };
    let script = script(blocks)
        .replace("127.0.0.1:8080", api)
        .replace("127.0.0.1:8000", &up.engine);
    let script = script.replace("127.0.0.1:3000", &format!("127.0.0.1:{shop}"));
    let mut command = Command::new("sh");
    command
        .args(["-eux", "-c", &script])
        .current_dir(clone.path())
        .process_group(0);
    let tools = [
        tool("node-tools/node", "browser"),
        tool("aws-cli/bin/aws", "python-tools"),
    ];
    let folders = tools
        .iter()
        .map(|tool| tool.parent().unwrap().display().to_string());
    let path = [clone.path().join("bin").display().to_string()]
        .into_iter()
        .chain(folders)
        .join(":");
    command.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
    command.envs([
        ("HOME", clone.path().join("home")),
        ("OUT", clone.path().join("out")),
    ]);
    command
        .env("PAGEMARK_BINARY", binary("pagemark").await)
        .env("BENCH_BINARY", binary("bench").await);
    command.envs([
        ("TOKEN", WRITE_TOKEN),
        ("MODERATOR", WRITE_TOKEN),
        ("UP", &own),
        ("PORT", &shop.to_string()),
    ]);
    command.env("ENGINE", format!("http://{}", up.engine));
    println!("{document}");
    run_tool(command, "").await;
    let printed =
        |number| fs::read_to_string(clone.path().join("out").join(format!("{number}"))).unwrap();
    blocks
        .iter()
        .map(|(number, _)| (*number, printed(number)))
        .collect()
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
        (Value::Array(answer), Value::Array(shown)) => answer
            .first()
            .zip(shown.first())
            .is_none_or(|(answer, shown)| is_of_form(answer, shown)),
        (answer, shown) => {
            answer.is_null() || shown.is_null() || discriminant(answer) == discriminant(shown)
        }
    }
}

/// A block of JSON directly behind commands shows an answer of the form that the last one got.
fn assert_shown(document: &str, blocks: &[Block], printed: &[(usize, String)]) {
    for (number, printed) in printed {
        let next = blocks
            .get(number + 1)
            .filter(|next| next.kind == "json" && next.before.trim().is_empty());
        let Some(shown) = next else { continue };
        let answers = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
        let answer = answers
            .last()
            .unwrap()
            .unwrap_or_else(|error| panic!("{document}: {error}: {printed}"));
        let shown: Value = serde_json::from_str(&shown.text).unwrap();
        assert!(
            is_of_form(&answer, &shown),
            "{document} shows {shown:#} instead of {answer:#}"
        );
    }
}

#[tokio::test]
async fn every_command_of_every_document_runs() {
    let data = folder_in_memory();
    let up = Up::start(
        data.path(),
        &["--demo", "2000", "--write-token", WRITE_TOKEN],
    )
    .await;
    let mut left_out = HashSet::new();
    for document in documents() {
        let blocks = blocks(&document);
        let is_left_out = |block: &Block, (of, begin, _): &(&str, &str, &str)| {
            *of == document && block.text.trim_start().starts_with(begin)
        };
        let mut runnable = Vec::new();
        let is_known = |block: &Block| COMMANDS.iter().chain(&OTHER_KINDS).contains(&&*block.kind);
        assert!(
            blocks.iter().all(is_known),
            "{document} has another kind of block: {blocks:?}"
        );
        for (number, block) in blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| COMMANDS.contains(&&*block.kind))
        {
            match LEFT_OUT.iter().find(|entry| is_left_out(block, entry)) {
                Some(entry) => drop(left_out.insert(entry)),
                None => runnable.push((number, block)),
            }
        }
        if !runnable.is_empty() {
            assert_shown(&document, &blocks, &run(&document, &runnable, &up).await);
        }
    }
    assert_eq!(
        left_out.len(),
        LEFT_OUT.len(),
        "no document has the others: {left_out:?}"
    );
    up.stop().await;
}

/// What a browser sends when a customer has filled in the documented form.
fn filled(rating: &str, body: &str) -> String {
    let form = fs::read_to_string(Path::new(PROJECT).join("docs/shop/form.html")).unwrap();
    let (form, named) = (
        Html::parse_fragment(&form),
        Selector::parse("[name]").unwrap(),
    );
    let fields = form.select(&named).map(|field| {
        let value = match field.attr("name").unwrap() {
            "rating" => rating,
            "body" => body,
            _ => field.attr("value").unwrap(),
        };
        format!("{}={}", field.attr("name").unwrap(), encoded(value))
    });
    fields.collect::<Vec<_>>().join("&")
}

async fn send(server: &Http, cookie: &str, from: &str, form: &str) -> Answer {
    let typed = ("content-type", "application/x-www-form-urlencoded");
    let headers = [typed, ("cookie", cookie), ("sec-fetch-site", from)];
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
    let (server, http) = (
        Program::start(program, arguments, variables),
        Http::new(format!("http://127.0.0.1:{port}")),
    );
    server.wait_for_connection(&http).await;
    (server, http)
}

#[tokio::test]
async fn customers_write_in_a_form_of_the_shop_and_its_staff_decides() {
    let data = folder_in_memory();
    let up = Up::start(
        data.path(),
        &[
            "--demo",
            "0",
            "--write-token",
            WRITE_TOKEN,
            "--new-comments",
            "pending",
            "--archive-after",
            "0",
        ],
    )
    .await;
    let api = &up.api;
    let node = tool("node-tools/node", "browser");
    let of_shop = |name: &str| format!("{PROJECT}/docs/shop/{name}");
    let (ports, reviews) = (
        [(); 3].map(|()| free_port(PORTS)),
        [of_shop("reviews.mjs"), of_shop("reviews.php")],
    );
    let (node, address) = (node.to_str().unwrap(), format!("127.0.0.1:{}", ports[1]));
    let in_node = serve(node, &[&reviews[0]], ports[0], api.authority()).await;
    let folders = std::env::var_os("PATH").unwrap();
    let php = std::env::split_paths(&folders)
        .map(|folder| folder.join("php"))
        .find(|path| path.exists());
    let php = php.expect("make web-servers").display().to_string();
    let in_php = serve(
        &php,
        &["-S", &address, &reviews[1]],
        ports[1],
        api.authority(),
    )
    .await;
    let (_queue, queue) = serve(node, &[&of_shop("queue.mjs")], ports[2], api.authority()).await;
    for (language, (_, server)) in [("Node.js", &in_node), ("PHP", &in_php)] {
        let good = filled("5", &format!("Better than <b>{language}</b> & \"all\""));
        for (cookie, from) in [("", "same-origin"), ("customer=7", "cross-site")] {
            assert_eq!(send(server, cookie, from, &good).await.status, 403);
        }
        let bad = send(server, "customer=7", "same-origin", &filled("9", "Good")).await;
        assert!(
            bad.status == 400 && bad.body.starts_with("rating: 9 is not"),
            "{bad:?}"
        );
        for _ in 0..2 {
            let sent = send(server, "customer=7", "same-origin", &good).await;
            assert_eq!(sent.status, 303, "{sent:?}");
            assert_eq!(
                sent.header("location"),
                Some("/espresso-machine?thanks"),
                "{sent:?}"
            );
        }
        // The second one created nothing. Nobody sees the review before the staff has decided.
        assert_eq!(
            api.get(&page_path("espresso-machine")).await.status,
            if language == "PHP" { 200 } else { 404 }
        );
        let staff = async |form: &str| send(&queue, "staff=yes", "same-origin", form).await.body;
        assert_eq!(
            send(&queue, "customer=7", "same-origin", "").await.status,
            403
        );
        let waiting = queue
            .send(Method::GET, "/", &[("cookie", "staff=yes")], b"")
            .await
            .body;
        assert!(
            waiting.contains(&format!(
                "Better than &#60;b&#62;{language}&#60;/b&#62; &#38; &#34;all&#34;"
            )),
            "{waiting}"
        );
        assert_eq!(waiting.matches("<form").count(), 1, "{waiting}");
        let id = waiting
            .split("name=\"id\" value=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert!(
            staff(&format!("id={id}&status=published"))
                .await
                .contains("Nothing waits.")
        );
        let shown = async || {
            let page = api.get(&page_path("espresso-machine")).await;
            if page.body.contains(&format!("&#60;b&#62;{language}")) {
                Ok(page)
            } else {
                Err(page)
            }
        };
        wait_for("the published review", shown).await;
    }
    up.stop().await;
}

/// The last column of the table of guarantees names planted bugs, modules of tests, and files.
#[test]
fn the_proofs_of_the_guarantees_exist() {
    let page = fs::read_to_string(Path::new(PROJECT).join("docs/guarantees.md")).unwrap();
    let proofs = page
        .lines()
        .filter_map(|line| line.strip_suffix('|')?.rsplit_once('|'));
    let names: BTreeSet<&str> = proofs
        .flat_map(|(_, proof)| proof.split('`').skip(1).step_by(2))
        .collect();
    let is_there = |name: &&&str| {
        let module = format!("tests/{}", name.replace("::", "/"));
        let files = [
            format!("{module}.rs"),
            format!("{module}/mod.rs"),
            format!("libs/model/src/{name}"),
        ];
        name.parse::<Bug>().is_ok()
            || files
                .iter()
                .any(|file| Path::new(PROJECT).join(file).exists())
    };
    assert_eq!(names.iter().find(|name| !is_there(name)), None);
    assert_eq!(
        Bug::iter().find(|bug| !names.contains(bug.to_string().as_str())),
        None,
        "which promise does it break?"
    );
}
