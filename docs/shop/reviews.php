<?php // Takes reviews from the shop's form. The environment has PAGEMARK=http://127.0.0.1:8080 and TOKEN=…
require __DIR__ . "/shop.php"; // yours

function answer(int $status, string $words): never
{
    http_response_code($status);
    header("content-type: text/plain; charset=utf-8");
    exit($words);
}

// Whether a browser says that the form is the shop's own: no other site may send one in your customer's name. Browsers before
// 2023, and all of them without HTTPS, name the page's origin alone. Your proxy has to pass on Host.
function is_own(): bool
{
    $site = $_SERVER["HTTP_SEC_FETCH_SITE"] ?? "";
    if ($site !== "") return $site === "same-origin";
    $host = $_SERVER["HTTP_HOST"] ?? "";
    return in_array($_SERVER["HTTP_ORIGIN"] ?? "", ["http://$host", "https://$host"], true);
}

$customer = customer_of();
if (!$customer || !is_own()) answer(403, "Please sign in.");
if ((int) ($_SERVER["CONTENT_LENGTH"] ?? 0) > 100_000) answer(400, "This is no review.");
// A field that somebody sends as product[] is a list.
foreach ($_POST as $value) if (!is_string($value)) answer(400, "This is no review.");
$product = $_POST["product"] ?? answer(400, "This is no review.");
if (!sells($product)) answer(404, "There is no such product.");
$words = ["language" => $_POST["language"] ?? "", "rating" => (int) ($_POST["rating"] ?? 0), "body" => $_POST["body"] ?? ""];
if (($_POST["title"] ?? "") !== "") $words["title"] = $_POST["title"];
$body = json_encode($words + ["author" => $customer["name"], "author_id" => $customer["id"]], JSON_INVALID_UTF8_SUBSTITUTE);
// The same review has the same key, so it is created once, however often it is sent.
$headers = ["authorization: Bearer " . getenv("TOKEN"), "content-type: application/json",
    "idempotency-key: " . hash("sha256", $product . $body)];
$request = ["method" => "POST", "header" => $headers, "content" => $body, "timeout" => 5, "ignore_errors" => true];
$address = getenv("PAGEMARK") . "/api/v1/products/" . rawurlencode($product) . "/comments";
$answer = @file_get_contents($address, false, stream_context_create(["http" => $request]));
$status = $answer === false ? 503 : (int) explode(" ", $http_response_header[0])[1];
if ($status === 201) header("location: /" . rawurlencode($product) . "?thanks", true, 303);
elseif ($status === 400) answer(400, json_decode($answer)->detail);
else answer(503, "Please send it again later.");
