# A preset: the messages of ../es.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] { $count } reseña
   *[other] { $count } reseñas
}
comments-noun = { $count ->
    [one] reseña
   *[other] reseñas
}
older = Más antiguas
comments-on = Reseñas sobre
title-comments = Reseñas sobre { $name }
title-no-comments = Ninguna reseña sobre { $name }
newest-first = primero las más recientes
oldest-first = primero las más antiguas
some-comments = Reseñas
the-newest-comments = Las reseñas más recientes
the-oldest-comments = Las reseñas más antiguas
range-newest = { $text }: las más recientes, { $days }
description-rated = Puntuación media de { $average } de 5, según { $count ->
    [one] { $count } reseña
   *[other] { $count } reseñas
}.
description-range = Reseñas de la { $from } a la { $to }, { $order }: { $days }.
description-range-of = Reseñas de la { $from } a la { $to } de { $total }, { $order }: { $days }.
description-range-from-oldest = Reseñas de la { $from } a la { $to } desde la más antigua, { $order }: { $days }.
average-out-of-5 = de 5, según { $count ->
    [one] { $count } reseña
   *[other] { $count } reseñas
}
average-from = según { $count ->
    [one] { $count } reseña
   *[other] { $count } reseñas
}
show-newest-first = Mostrar primero las más recientes
show-oldest-first = Mostrar primero las más antiguas
feed-of-comments = Fuente web de estas reseñas
degraded = Los totales y los números de página no están disponibles por el momento. Se puede seguir avanzando página a página; los enlaces a una reseña volverán a funcionar pronto.
no-match = Ninguna reseña sobre este producto coincide con estos filtros.
nobody = Nadie ha escrito sobre este producto todavía.
all-comments = Todas las reseñas sobre este producto
write = Escribir una reseña
comment-of = Reseña de
link-to-comment = enlace a esta reseña del
newest-positive-and-critical = Última positiva y última crítica
most-recent-positive = La positiva más reciente
most-recent-critical = La crítica más reciente
all-positive = Todas las reseñas positivas
all-critical = Todas las reseñas críticas
pages-before-comments = Páginas, antes de las reseñas
oldest = Más antiguas
title-most-commented = Productos con más reseñas
words-most-commented = con más reseñas
description-products = Productos según sus reseñas: { $list }.
no-products = Ningún producto tiene reseñas todavía.
newest-comment = Última:
title-start = Pagemark: reseñas sobre productos
about = Reseñas sobre productos, con filtros y con números de página que son direcciones de verdad.
all-products = Todos los productos con reseñas
help-comments = Todas las reseñas, primero las más recientes.
help-page-from-oldest = La página 7, contada desde la más antigua.
help-oldest = Primero las más antiguas.
help-language = Las de un idioma (una etiqueta BCP 47), o las de todos: ~.
help-ratings = Las que tienen una de varias puntuaciones.
help-comment = La página que muestra una reseña.
help-json-products = Los productos que tienen reseñas.
help-json-stats = Cuántas reseñas hay, por puntuación y por idioma.
help-json-post = Una reseña nueva, con Authorization: Bearer TOKEN.
page-1-oldest = Página 1, con las reseñas más antiguas
meanwhile-others = Aquí no se encontraron reseñas, pero puede haberlas: por el momento no se puede comprobar. Mientras tanto se pueden leer las páginas con reseñas.
part-id = la reseña
error-no-comment = Esta reseña no existe.
error-past-all-numbers = La página { $page } está más allá del final: ninguna página tiene número; todas las reseñas están en la página sin número.
error-past-the-archive = La página { $page } está más allá del final: la página numerada más reciente es la { $last }; las reseñas más nuevas están en la página sin número.
error-not-yet-listed = Aún se están colocando reseñas de esta lista en sus páginas, y quizá en esta. Inténtelo de nuevo en un momento.
error-table = Las reseñas no están accesibles temporalmente. Inténtelo más tarde.
verified = Verificada
