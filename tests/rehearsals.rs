//! What an operator does rarely, done here with real processes: the passwords of Redis change, and a table that was
//! restored from a backup replaces another one. The documented commands run as they are written; those of AWS
//! in `smoke`.

use crate::{
    fixture::{
        api::{ApiProcess, api_variables},
        data::{self, PRODUCT},
        engine,
        function::{self, Function, Variables, page_indexer_variables, repair_job_variables, with},
        http::listing,
        invariants::all_items,
        program::Program,
        project_file,
        redis_server::OwnRedis,
        stores::Stores,
    },
    secured::documented_users,
};

/// A page that no process answers without the page index.
fn numbered() -> String {
    listing("page=2&page_size=5")
}

fn as_user(variables: Variables, stores: &Stores, user: &str, password: &str) -> Variables {
    let url = stores.redis().url.replace("redis://", &format!("redis://{user}:{password}@"));
    with(variables, &[("PAGEMARK_REDIS_URL", url.as_str())])
}

struct Processes {
    api: ApiProcess,
    indexer: Function,
}

impl Processes {
    async fn start(stores: &Stores, password: &str) -> Self {
        Self {
            api: ApiProcess::start(as_user(api_variables(stores), stores, "api", password)).await,
            indexer: Function::start(
                "page-indexer",
                as_user(page_indexer_variables(stores), stores, "page-indexer", password),
            )
            .await,
        }
    }

    async fn work(&self, stores: &Stores) {
        assert_eq!(self.indexer.deliver(&stores.lambda_records().await).await, Vec::<String>::new());
        self.api.http.get(&numbered()).await.expect(200);
    }
}

#[tokio::test]
async fn passwords_change_while_comments_are_indexed_and_pages_are_read() {
    let redis = OwnRedis::start().await;
    let stores = Stores::start_on(redis.server.url()).await;
    stores.fill(10).await;
    let keys = format!("~{}:*", stores.redis().prefix);
    let rules = |rules: Vec<String>| rules.join(" ").replace("~pagemark:*", &keys);
    let users: Vec<_> = documented_users().into_iter().map(|(user, of_user)| (user, rules(of_user))).collect();
    assert_eq!(users.len(), 3);
    let change = async |rule: &str| {
        for (user, _) in &users {
            redis.ask::<()>(&format!("ACL SETUSER {user} {rule}")).await;
        }
    };
    let end_connections = async || redis.ask::<i64>("CLIENT KILL TYPE normal SKIPME yes").await;
    for (user, rules) in &users {
        redis.ask::<()>(&format!("ACL SETUSER {user} on >old {rules}")).await;
    }
    let before = Processes::start(&stores, "old").await;
    before.work(&stores).await;

    // The first deployment: both passwords are accepted, and new processes replace the old ones one by one.
    change(">new").await;
    let after = Processes::start(&stores, "new").await;
    stores.create_numbered(10, data::product(PRODUCT)).await;
    end_connections().await;
    for processes in [&before, &after] {
        processes.api.http.wait_for_200(&numbered()).await;
        processes.work(&stores).await;
    }

    // The second deployment. A process with the old password keeps its connections, and gets no further ones.
    change("<old").await;
    before.work(&stores).await;
    end_connections().await;
    after.api.http.wait_for_200(&numbered()).await;
    after.work(&stores).await;
    before.api.http.get(&numbered()).await.assert_later();
    for processes in [before, after] {
        processes.indexer.finish().await;
        processes.api.terminate();
        assert!(processes.api.ended().await.success());
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_restored_table_replaces_another_by_the_documented_commands() {
    let old = Stores::start_with_redis().await;
    old.fill(30).await;
    // The backup is taken in the middle of fan-outs.
    old.create_all(30..34, |_| data::product(PRODUCT)).await;
    let backup = all_items(&old.table).await;
    old.create_all(34..36, |_| data::product(PRODUCT)).await;
    old.deliver_all().await;

    let restored = Stores::start_with(old.redis().clone()).await;
    for item in backup {
        restored.put_raw(item).await;
    }
    let api = ApiProcess::start(api_variables(&restored)).await;
    api.http.get(&numbered()).await.assert_later();
    let steps = section("Restoring from a backup");
    let commands = steps.lines().filter(|line| line.as_bytes().get(1) == Some(&b'.'));
    let commands = commands.filter_map(|line| line.split("`repair-job ").nth(1)?.split('`').next());
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands, ["rebuild --apply", "audit --apply --restart", "status"]);
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let run = Program::start(function::binary("repair-job").await, &arguments, repair_job_variables(&restored));
        let ended = run.end().await;
        // The audit repairs the fan-outs that the backup has cut.
        assert_eq!(ended.code(), if command.starts_with("audit") { 4 } else { 0 }, "{command}: {ended:?}");
    }
    restored.assert_invariants().await;
    let page = api.http.get(&listing("page=1&page_size=100")).await.expect(200);
    assert_eq!(page["total"], 34, "comments after the backup are in the old table alone");
    restored.finish().await;
    engine::delete_table(&old.table).await;
}

fn section(heading: &str) -> String {
    let text = project_file("docs/operate.md");
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}
