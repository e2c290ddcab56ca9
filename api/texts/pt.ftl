# The texts of pages in Portuguese. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { $percent }%
separator = { ", " }
sentence-separator = { " " }
or = { $first } ou { $last }
month = { $month ->
    [1] jan.
    [2] fev.
    [3] mar.
    [4] abr.
    [5] mai.
    [6] jun.
    [7] jul.
    [8] ago.
    [9] set.
    [10] out.
    [11] nov.
   *[12] dez.
}
day = { $day } de { month } de { $year }
days = de { $from } a { $to }

comments = { $count ->
    [one] { $count } comentário
   *[other] { $count } comentários
}
comments-noun = { $count ->
    [one] comentário
   *[other] comentários
}
out-of-5 = { $rating } de 5
of-5 = de 5

## Frame of all pages

skip = Ir para o conteúdo
start-page = Página inicial
try-again = Tentar de novo
pages = Páginas
rating = Nota
language = Idioma
page = Página
newer = Mais recentes
older = Mais antigos
previous = Anterior
next = Próxima
step-page = (página)

## A page of comments

comments-on = Comentários sobre
title-comments = Comentários sobre { $name }
title-no-comments = Nenhum comentário sobre { $name }
in-language = em { $language }
rated = com nota { $ratings }
page-number = página { $page }
page-of-pages = página { $page } de { $pages }
page-of-archive = página { $page } de { $pages } desde a mais antiga
continued = continuação
newest-first = os mais recentes primeiro
oldest-first = os mais antigos primeiro
highest-first = a nota mais alta primeiro
lowest-first = a nota mais baixa primeiro
comments-of-filter = { $comments } { $filter }
some-comments = Comentários
the-newest-comments = Os comentários mais recentes
the-oldest-comments = Os comentários mais antigos
range = { $text }: { $days }
range-newest = { $text }: os mais recentes, { $days }

description-subject = { $subject }.
description-rated = Nota média de { $average } em 5, segundo { $count ->
    [one] { $count } comentário
   *[other] { $count } comentários
}.
description-range = Comentários { $from } a { $to }, { $order }: { $days }.
description-range-of = Comentários { $from } a { $to } de { $total }, { $order }: { $days }.
description-range-from-oldest = Comentários { $from } a { $to } a partir do mais antigo, { $order }: { $days }.

average = { $average }
average-out-of-5 = em 5, segundo { $count ->
    [one] { $count } comentário
   *[other] { $count } comentários
}
average-in-language = Em { $language }:
average-from = segundo { $count ->
    [one] { $count } comentário
   *[other] { $count } comentários
}
view-product = Ver o produto
write = Escrever um comentário
show-newest-first = Mostrar primeiro os mais recentes
show-oldest-first = Mostrar primeiro os mais antigos
show-highest-first = Mostrar primeiro a nota mais alta
show-lowest-first = Mostrar primeiro a nota mais baixa
feed-of-comments = Feed destes comentários
degraded = Os totais e os números de página não estão disponíveis no momento. Ainda é possível avançar página por página; os links para um comentário voltarão a funcionar em breve.
no-match = Nenhum comentário sobre este produto corresponde a estes filtros.
nobody = Ninguém comentou este produto ainda.
all-comments = Todos os comentários sobre este produto

filters = Filtros
active-filters = Filtros ativos
remove = Remover
remove-all = Remover todos os filtros
chosen-language = Idioma: { $language }
chosen-ratings = Nota: { $ratings }
all-languages = Todos os idiomas
more-languages = { $count ->
    [one] Mais { $count } idioma
   *[other] Mais { $count } idiomas
}

anonymous = Anônimo
comment-of = Comentário de
link-to-comment = link para este comentário de
show-rest = Mostrar o resto
photo = Foto n.º { $number }

newest-positive-and-critical = Último positivo e último crítico
most-recent-positive = O positivo mais recente
most-recent-critical = O crítico mais recente
all-positive = Todos os comentários positivos
all-critical = Todos os comentários críticos

pages-before-comments = Páginas, antes dos comentários
other-pages = Outras páginas
newest = Mais recentes
oldest = Mais antigos
page-1-is-oldest = Página 1: mais antiga
page-to-go = Página
go = Ir

## The list of products, and the start page

products = Produtos
title-most-commented = Produtos mais comentados
words-most-commented = mais comentados
description-products = Produtos segundo seus comentários: { $list }.
products-of = Produtos { $from } a { $to } de { $total }
no-products = Nenhum produto tem comentários ainda.
newest-comment = Último:
title-start = Pagemark: comentários sobre produtos
about = Comentários sobre produtos, com filtros e com números de página que são endereços de verdade.
all-products = Todos os produtos com comentários
try = Para experimentar
demo = Esta é a demonstração: cerca de 2.000 comentários gerados sobre três produtos de uma loja que não existe, uma máquina de café, uma leiteira e um livro. Cada página de comentários termina com uma linha para engenheiros.
try-newest = Os comentários mais recentes, com um longo que se abre
try-page = A página 7, cujo endereço mantém os seus comentários enquanto chegam outros
try-filter = Comentários em inglês com nota 4 ou 5: um filtro é uma chave
try-right-to-left = Comentários que se leem da direita para a esquerda
try-slash = Um produto com uma barra no identificador
try-json = Comentários críticos em JSON, com o custo da resposta
products-away = A lista de produtos não está disponível no momento.
base-path = Antes de cada caminho vem { $path }.
product-id = Coloque o identificador do seu produto, com codificação por cento, no lugar de PRODUCT: uma barra vira %2F.
help-comments = Todos os comentários, os mais recentes primeiro.
help-page-from-oldest = A página 7, contada a partir do mais antigo.
help-oldest = Os mais antigos primeiro.
help-language = Os de um idioma (uma etiqueta BCP 47), ou de todos: ~.
help-ratings = Os que têm uma de várias notas.
help-comment = A página que mostra um comentário.
help-json-comments = O mesmo como dados; siga links.next.
help-json-products = Os produtos que têm comentários.
help-json-stats = Quantos comentários há, por nota e por idioma.
help-json-post = Um novo comentário, com Authorization: Bearer TOKEN.
help-readyz = Como estão os bancos de dados.

## Errors

heading-mistake = Há um erro neste endereço
heading-nothing = Esta página não existe
heading-away = Esta página não está disponível no momento
heading-error = Erro { $status }
last-page = A última página, página { $page }
page-1 = Página 1
page-1-oldest = Página 1, com os comentários mais antigos
first-page = A primeira página
meanwhile-first-page = No momento faltam apenas os números de página. Enquanto isso, a primeira página da lista pode ser lida.
meanwhile-others = Nenhum comentário foi encontrado aqui, mas pode haver algum: no momento não é possível verificar. Enquanto isso, as páginas com comentários podem ser lidas.
error-mistake = Esta parte está errada: { $part }.
part-page = o número da página
part-order = a ordem
part-date = a data
part-cursor = o cursor
part-language = o idioma
part-rating = a nota
part-product = o produto
part-id = o comentário
error-no-route = Não há nada neste endereço.
error-method = Este endereço só aceita { $allow }.
error-no-comment = Este comentário não existe.
error-no-product = Este produto não existe.
error-past-the-end = A página { $page } está além do fim: a última é a página { $last }.
error-past-all-numbers = A página { $page } está além do fim: nenhuma página tem número; todos os comentários estão na página sem número.
error-past-the-archive = A página { $page } está além do fim: a página numerada mais recente é a { $last }; os comentários mais novos estão na página sem número.
error-index = Os números de página e os totais estão temporariamente indisponíveis, por isso não há resposta agora. Tente mais tarde.
error-not-yet-listed = Comentários desta lista ainda estão sendo colocados em suas páginas, e talvez nesta. Tente de novo em um instante.
error-table = Os comentários estão temporariamente inacessíveis. Tente mais tarde.
error-overloaded = Há solicitações demais em andamento. Tente mais tarde.
error-timed-out = A solicitação demorou demais. Algo pode ter sido gravado ou não. Tente mais tarde.
error-internal = O servidor cometeu um erro; ele foi registrado.
verified = Verificado
reply-of = Resposta:
the-shop = a loja
