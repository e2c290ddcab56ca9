<?php // What only your shop knows. For trying, whoever has a cookie is signed in.

function sells(string $product): bool
{
    return $product === "espresso-machine";
}

function customer_of(): ?array
{
    return isset($_COOKIE["customer"]) ? ["id" => "customer-" . $_COOKIE["customer"], "name" => "Ada"] : null;
}
