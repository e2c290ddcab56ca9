# A preset: the messages of ../pt.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] { $count } avaliação
   *[other] { $count } avaliações
}
comments-noun = { $count ->
    [one] avaliação
   *[other] avaliações
}
older = Mais antigas
comments-on = Avaliações sobre
title-comments = Avaliações sobre { $name }
title-no-comments = Nenhuma avaliação sobre { $name }
newest-first = as mais recentes primeiro
oldest-first = as mais antigas primeiro
some-comments = Avaliações
the-newest-comments = As avaliações mais recentes
the-oldest-comments = As avaliações mais antigas
range-newest = { $text }: as mais recentes, { $days }
description-rated = Nota média de { $average } em 5, segundo { $count ->
    [one] { $count } avaliação
   *[other] { $count } avaliações
}.
description-range = Avaliações { $from } a { $to }, { $order }: { $days }.
description-range-of = Avaliações { $from } a { $to } de { $total }, { $order }: { $days }.
description-range-from-oldest = Avaliações { $from } a { $to } a partir da mais antiga, { $order }: { $days }.
average-out-of-5 = em 5, segundo { $count ->
    [one] { $count } avaliação
   *[other] { $count } avaliações
}
average-from = segundo { $count ->
    [one] { $count } avaliação
   *[other] { $count } avaliações
}
show-newest-first = Mostrar primeiro as mais recentes
show-oldest-first = Mostrar primeiro as mais antigas
feed-of-comments = Feed destas avaliações
degraded = Os totais e os números de página não estão disponíveis no momento. Ainda é possível avançar página por página; os links para uma avaliação voltarão a funcionar em breve.
no-match = Nenhuma avaliação sobre este produto corresponde a estes filtros.
nobody = Ninguém avaliou este produto ainda.
all-comments = Todas as avaliações sobre este produto
write = Escrever uma avaliação
comment-of = Avaliação de
link-to-comment = link para esta avaliação de
newest-positive-and-critical = Última positiva e última crítica
most-recent-positive = A positiva mais recente
most-recent-critical = A crítica mais recente
all-positive = Todas as avaliações positivas
all-critical = Todas as avaliações críticas
pages-before-comments = Páginas, antes das avaliações
oldest = Mais antigas
title-most-commented = Produtos com mais avaliações
words-most-commented = com mais avaliações
description-products = Produtos segundo suas avaliações: { $list }.
no-products = Nenhum produto tem avaliações ainda.
newest-comment = Última:
title-start = Pagemark: avaliações sobre produtos
about = Avaliações sobre produtos, com filtros e com números de página que são endereços de verdade.
all-products = Todos os produtos com avaliações
help-comments = Todas as avaliações, as mais recentes primeiro.
help-page-from-oldest = A página 7, contada a partir da mais antiga.
help-oldest = As mais antigas primeiro.
help-language = As de um idioma (uma etiqueta BCP 47), ou de todos: ~.
help-ratings = As que têm uma de várias notas.
help-comment = A página que mostra uma avaliação.
help-json-products = Os produtos que têm avaliações.
help-json-stats = Quantas avaliações há, por nota e por idioma.
help-json-post = Uma nova avaliação, com Authorization: Bearer TOKEN.
page-1-oldest = Página 1, com as avaliações mais antigas
meanwhile-others = Nenhuma avaliação foi encontrada aqui, mas pode haver alguma: no momento não é possível verificar. Enquanto isso, as páginas com avaliações podem ser lidas.
part-id = a avaliação
error-no-comment = Esta avaliação não existe.
error-past-all-numbers = A página { $page } está além do fim: nenhuma página tem número; todas as avaliações estão na página sem número.
error-past-the-archive = A página { $page } está além do fim: a página numerada mais recente é a { $last }; as avaliações mais novas estão na página sem número.
error-not-yet-listed = Avaliações desta lista ainda estão sendo colocadas em suas páginas, e talvez nesta. Tente de novo em um instante.
error-table = As avaliações estão temporariamente inacessíveis. Tente mais tarde.
verified = Verificada
