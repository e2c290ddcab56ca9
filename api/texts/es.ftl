# The texts of pages in Spanish. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { $percent } %
separator = { ", " }
sentence-separator = { " " }
or = { $first } o { $last }
month = { $month ->
    [1] ene
    [2] feb
    [3] mar
    [4] abr
    [5] may
    [6] jun
    [7] jul
    [8] ago
    [9] sept
    [10] oct
    [11] nov
   *[12] dic
}
day = { $day } { month } { $year }
days = del { $from } al { $to }

comments = { $count ->
    [one] { $count } comentario
   *[other] { $count } comentarios
}
comments-noun = { $count ->
    [one] comentario
   *[other] comentarios
}
out-of-5 = { $rating } de 5
of-5 = de 5

## Frame of all pages

skip = Ir al contenido
start-page = Página de inicio
try-again = Intentar de nuevo
pages = Páginas
rating = Puntuación
language = Idioma
page = Página
newer = Más recientes
older = Más antiguos
previous = Anterior
next = Siguiente
step-page = (página)

## A page of comments

comments-on = Comentarios sobre
title-comments = Comentarios sobre { $name }
title-no-comments = Ningún comentario sobre { $name }
in-language = en { $language }
rated = con puntuación { $ratings }
page-number = página { $page }
page-of-pages = página { $page } de { $pages }
page-of-archive = página { $page } de { $pages } desde la más antigua
continued = continuación
newest-first = primero los más recientes
oldest-first = primero los más antiguos
highest-first = primero la puntuación más alta
lowest-first = primero la puntuación más baja
comments-of-filter = { $comments } { $filter }
some-comments = Comentarios
the-newest-comments = Los comentarios más recientes
the-oldest-comments = Los comentarios más antiguos
range = { $text }: { $days }
range-newest = { $text }: los más recientes, { $days }

description-subject = { $subject }.
description-rated = Puntuación media de { $average } de 5, según { $count ->
    [one] { $count } comentario
   *[other] { $count } comentarios
}.
description-range = Comentarios del { $from } al { $to }, { $order }: { $days }.
description-range-of = Comentarios del { $from } al { $to } de { $total }, { $order }: { $days }.
description-range-from-oldest = Comentarios del { $from } al { $to } desde el más antiguo, { $order }: { $days }.

average = { $average }
average-out-of-5 = de 5, según { $count ->
    [one] { $count } comentario
   *[other] { $count } comentarios
}
average-in-language = En { $language }:
average-from = según { $count ->
    [one] { $count } comentario
   *[other] { $count } comentarios
}
view-product = Ver el producto
write = Escribir un comentario
show-newest-first = Mostrar primero los más recientes
show-oldest-first = Mostrar primero los más antiguos
show-highest-first = Mostrar primero la puntuación más alta
show-lowest-first = Mostrar primero la puntuación más baja
feed-of-comments = Fuente web de estos comentarios
degraded = Los totales y los números de página no están disponibles por el momento. Se puede seguir avanzando página a página; los enlaces a un comentario volverán a funcionar pronto.
no-match = Ningún comentario sobre este producto coincide con estos filtros.
nobody = Nadie ha comentado este producto todavía.
all-comments = Todos los comentarios sobre este producto

filters = Filtros
active-filters = Filtros activos
remove = Quitar
remove-all = Quitar todos los filtros
chosen-language = Idioma: { $language }
chosen-ratings = Puntuación: { $ratings }
all-languages = Todos los idiomas
more-languages = { $count ->
    [one] { $count } idioma más
   *[other] { $count } idiomas más
}

anonymous = Anónimo
comment-of = Comentario de
link-to-comment = enlace a este comentario del
show-rest = Mostrar el resto
photo = Foto { $number }

newest-positive-and-critical = Último positivo y último crítico
most-recent-positive = El positivo más reciente
most-recent-critical = El crítico más reciente
all-positive = Todos los comentarios positivos
all-critical = Todos los comentarios críticos

pages-before-comments = Páginas, antes de los comentarios
other-pages = Otras páginas
newest = Más recientes
oldest = Más antiguos
page-1-is-oldest = Página 1: más antigua
page-to-go = Página
go = Ir

## The list of products, and the start page

products = Productos
title-most-commented = Productos más comentados
words-most-commented = más comentados
description-products = Productos según sus comentarios: { $list }.
products-of = Productos del { $from } al { $to } de { $total }
no-products = Ningún producto tiene comentarios todavía.
newest-comment = Último:
title-start = Pagemark: comentarios sobre productos
about = Comentarios sobre productos, con filtros y con números de página que son direcciones de verdad.
all-products = Todos los productos con comentarios
try = Para probar
demo = Esta es la demostración: unos 2000 comentarios generados sobre tres productos de una tienda que no existe, una cafetera exprés, una jarra de leche y un libro. Cada página de comentarios termina con una línea para ingenieros.
try-newest = Los comentarios más recientes, con uno largo que se despliega
try-page = La página 7, cuya dirección conserva sus comentarios mientras llegan otros
try-filter = Comentarios en inglés con puntuación 4 o 5: un filtro es una clave
try-right-to-left = Comentarios que se leen de derecha a izquierda
try-slash = Un producto cuyo identificador tiene una barra
try-json = Comentarios críticos en JSON, con lo que costó la respuesta
products-away = La lista de productos no está disponible por el momento.
base-path = Delante de cada ruta va { $path }.
product-id = Ponga el identificador de su producto, con codificación por ciento, en lugar de PRODUCT: una barra se convierte en %2F.
help-comments = Todos los comentarios, primero los más recientes.
help-page-from-oldest = La página 7, contada desde el más antiguo.
help-oldest = Primero los más antiguos.
help-language = Los de un idioma (una etiqueta BCP 47), o los de todos: ~.
help-ratings = Los que tienen una de varias puntuaciones.
help-comment = La página que muestra un comentario.
help-json-comments = Lo mismo como datos; siga links.next.
help-json-products = Los productos que tienen comentarios.
help-json-stats = Cuántos comentarios hay, por puntuación y por idioma.
help-json-post = Un comentario nuevo, con Authorization: Bearer TOKEN.
help-readyz = Cómo están los almacenes de datos.

## Errors

heading-mistake = Hay un error en esta dirección
heading-nothing = Esta página no existe
heading-away = Esta página no está disponible por el momento
heading-error = Error { $status }
last-page = La última página, página { $page }
page-1 = Página 1
page-1-oldest = Página 1, con los comentarios más antiguos
first-page = La primera página
meanwhile-first-page = Por el momento solo faltan los números de página. Mientras tanto se puede leer la primera página de la lista.
meanwhile-others = Aquí no se encontraron comentarios, pero puede haberlos: por el momento no se puede comprobar. Mientras tanto se pueden leer las páginas con comentarios.
error-mistake = Esta parte es incorrecta: { $part }.
part-page = el número de página
part-order = el orden
part-date = la fecha
part-cursor = el cursor
part-language = el idioma
part-rating = la puntuación
part-product = el producto
part-id = el comentario
error-no-route = No hay nada en esta dirección.
error-method = Esta dirección solo acepta { $allow }.
error-no-comment = Este comentario no existe.
error-no-product = Este producto no existe.
error-past-the-end = La página { $page } está más allá del final: la última es la página { $last }.
error-past-all-numbers = La página { $page } está más allá del final: ninguna página tiene número; todos los comentarios están en la página sin número.
error-past-the-archive = La página { $page } está más allá del final: la página numerada más reciente es la { $last }; los comentarios más nuevos están en la página sin número.
error-index = Los números de página y los totales no están disponibles temporalmente, por lo que ahora no hay respuesta. Inténtelo más tarde.
error-not-yet-listed = Aún se están colocando comentarios de esta lista en sus páginas, y quizá en esta. Inténtelo de nuevo en un momento.
error-table = Los comentarios no están accesibles temporalmente. Inténtelo más tarde.
error-overloaded = Hay demasiadas solicitudes en curso. Inténtelo más tarde.
error-timed-out = La solicitud tardó demasiado. Puede que se haya escrito algo o no. Inténtelo más tarde.
error-internal = El servidor cometió un error; ha quedado registrado.
verified = Verificado
reply-of = Respuesta:
the-shop = la tienda
