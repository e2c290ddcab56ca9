<?php // Takes reviews from the shop's form. The environment has PAGEMARK=http://127.0.0.1:8080 and TOKEN=…
require __DIR__ . "/shop.php"; // yours

function answer(int $status, string $words): never
{
    http_response_code($status);
    header("content-type: text/plain; charset=utf-8");
    exit($words);
}

$customer = customer_of();
// Browsers say so only of the shop's own form: no other site may send one in your customer's name.
if (!$customer || ($_SERVER["HTTP_SEC_FETCH_SITE"] ?? "") !== "same-origin") answer(403, "Please sign in.");
$product = $_POST["product"] ?? "";
if (!sells($product)) answer(404, "There is no such product.");
$words = ["language" => "en", "rating" => (int) ($_POST["rating"] ?? 0), "body" => $_POST["body"] ?? ""];
$body = json_encode($words + ["author" => $customer["name"], "author_id" => $customer["id"]]);
// The same review has the same key, so it is created once, however often it is sent.
$headers = ["authorization: Bearer " . getenv("TOKEN"), "content-type: application/json",
    "idempotency-key: " . hash("sha256", $body)];
$request = ["method" => "POST", "header" => $headers, "content" => $body, "timeout" => 5, "ignore_errors" => true];
$address = getenv("PAGEMARK") . "/api/v1/products/" . rawurlencode($product) . "/comments";
$answer = @file_get_contents($address, false, stream_context_create(["http" => $request]));
$status = $answer === false ? 503 : (int) explode(" ", $http_response_header[0])[1];
if ($status === 201) header("location: /" . rawurlencode($product) . "?thanks", true, 303);
elseif ($status === 400) answer(400, json_decode($answer)->detail);
else answer(503, "Please send it again later.");
